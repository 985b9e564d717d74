"""AllocateProducerIds: brokers get producer ids in blocks, so that one record serves a thousand."""

from __future__ import annotations

from tidelog.controller.brokers import is_stale
from tidelog.controller.decision import Decision
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import ProducerIdsRecord
from tidelog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

BLOCK_SIZE = 1000
PRODUCER_ID_MAX = (1 << 63) - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """The next block, which is nobody else's from the commit of its record on."""
    code = ErrorCode.NONE
    if is_stale(image, request.broker_id, request.broker_epoch):
        code = ErrorCode.STALE_BROKER_EPOCH
    elif image.next_producer_id > PRODUCER_ID_MAX - BLOCK_SIZE:
        code = ErrorCode.UNKNOWN_SERVER_ERROR  # "Exhausted all producerIds"
    if code is not ErrorCode.NONE:
        refused = AllocateProducerIdsResponse(
            error_code=code, producer_id_start=0, producer_id_len=0
        )
        return Decision([], refused)
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=image.next_producer_id + BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE,
        producer_id_start=image.next_producer_id,
        producer_id_len=BLOCK_SIZE,
    )
    return Decision([record], response)
