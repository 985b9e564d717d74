"""InitProducerId: an id for an idempotent producer, from a block that the controller gave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.runtime.purgatory import Delayed
from tidelog.wire.declare import Message
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

EPOCH_MAX = (1 << 15) - 1
COMMIT_TIMEOUT_MS = 30_000


def init_producer_id(request: Request, broker: Broker, now: Now) -> Message | Delayed:
    message = request.message
    assert isinstance(message, InitProducerIdRequest)
    if message.transactional_id is not None:
        # An empty one is a mistake; others need a coordinator, which is not there yet.
        code = (
            ErrorCode.COORDINATOR_NOT_AVAILABLE
            if message.transactional_id
            else ErrorCode.INVALID_REQUEST
        )
        return _refused(code)
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    delayed = DelayedProducerId(now.monotonic_ms + COMMIT_TIMEOUT_MS)
    if broker.producer_ids.take(delayed, now):
        return delayed.response(broker.producer_ids.next_id())
    return delayed


class DelayedProducerId(Delayed):
    """Waits until a new block of ids is committed."""

    waits_for_disk = True

    @staticmethod
    def response(producer_id: int) -> InitProducerIdResponse:
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
        )

    def expire(self, now: Now) -> Message:
        # What clients take for "ask again": Kafka answers so while it waits for a block.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
