"""UpdateFeatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller import features
from tidelog.controller.decision import Decision
from tidelog.env import Now
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController


def update_features(
    request: Request, controller: QuorumController, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, UpdateFeaturesRequest)

    def decide() -> Slices[Decision[UpdateFeaturesResponse]]:
        yield 1
        return features.update_features(controller.latest, message, controller.node_id)

    return (yield from controller.commit(decide, "results", message.timeout_ms, now))
