"""AllocateProducerIds: a block of ids for a broker's idempotent producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller.decision import Decision
from tidelog.controller.producer_ids import allocate_producer_ids as allocate
from tidelog.env import Now
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

COMMIT_TIMEOUT_MS = 30_000


def allocate_producer_ids(
    request: Request, controller: QuorumController, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, AllocateProducerIdsRequest)

    def decide() -> Slices[Decision[AllocateProducerIdsResponse]]:
        yield 1
        return allocate(controller.latest, message)

    return (yield from controller.commit(decide, "", COMMIT_TIMEOUT_MS, now))
