"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: where things are, and from where on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tidelog.broker.delayed_delete_records import Deleted, wait_for_low_watermarks
from tidelog.controller.names import INTERNAL_TOPICS
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.results import DamagedSegment
from tidelog.replica.partition import NO_EPOCH, Partition
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
KNOWN_BY_HEART = (LATEST, EARLIEST, EARLIEST_LOCAL)
LEADER_EPOCH_SINCE = 4
"""Older answers have no leader epoch."""
NOT_AVAILABLE_SINCE = 5
"""Older clients do not know OFFSET_NOT_AVAILABLE."""

SINCE_VERSION = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The special timestamps that came later; older versions know no such thing."""
READ_COMMITTED = 1
CONSUMER = -1
HIGH_WATERMARK = -1
LOOKUP_COST = 5
TIMESTAMP_COST = 50
"""Microseconds: what the log knows by heart, and what it has to read for."""


def list_offsets(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, ListOffsetsRequest)
    counts: Counter[tuple[str, int]] = Counter()
    for topic in message.topics:
        for asked in topic.partitions:
            counts[topic.name, asked.partition_index] += 1
            yield 1
    topics = []
    for topic in message.topics:
        partitions = []
        for asked in topic.partitions:
            partition: Partition | ErrorCode = ErrorCode.INVALID_REQUEST
            if counts[topic.name, asked.partition_index] == 1:
                partition = broker.led(topic.name, asked.partition_index, now)
            try:
                found = _list_one(partition, asked, request.version, message)
            except (OSError, DamagedSegment) as failure:
                assert isinstance(partition, Partition)
                error = broker.hosting.erred(partition, failure, now)
                found = _list_one(error, asked, request.version, message)
            partitions.append(found)
            yield LOOKUP_COST if asked.timestamp in KNOWN_BY_HEART else TIMESTAMP_COST
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
        yield 1
    return ListOffsetsResponse(topics=tuple(topics))


def _list_one(
    partition: Partition | ErrorCode,
    asked: ListOffsetsPartition,
    version: int,
    message: ListOffsetsRequest,
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    if isinstance(partition, Partition):
        error = partition.check_leader_epoch(asked.current_leader_epoch)
    else:
        error = partition
    if asked.timestamp < EARLIEST_PENDING_UPLOAD or version < SINCE_VERSION.get(asked.timestamp, 0):
        error = ErrorCode.UNSUPPORTED_VERSION
    if error is not ErrorCode.NONE:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error)
    assert isinstance(partition, Partition)
    end_offset = partition.high_watermark
    if message.replica_id != CONSUMER:
        end_offset = partition.log.log_end_offset
    elif message.isolation_level == READ_COMMITTED:
        end_offset = partition.last_stable_offset
    timestamp, offset, epoch = _find(partition, asked.timestamp, end_offset)
    is_end_asked = asked.timestamp == LATEST or (offset < 0 and asked.timestamp > LATEST_TIERED)
    if message.replica_id == CONSUMER and is_end_asked and partition.is_end_unknown:
        is_old = version < NOT_AVAILABLE_SINCE
        error = ErrorCode.LEADER_NOT_AVAILABLE if is_old else ErrorCode.OFFSET_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if version >= LEADER_EPOCH_SINCE else NO_EPOCH,
    )


def _find(partition: Partition, timestamp: int, end_offset: Offset) -> tuple[int, Offset, int]:
    """Timestamp, offset and leader epoch of what was asked for; -1, -1, -1 if there is none."""
    log = partition.log
    nothing = (-1, -1, NO_EPOCH)
    match timestamp:
        case -1:
            return -1, end_offset, partition.leader_epoch
        case -2 | -4:
            start = log.log_start_offset
            return -1, start, log.leader_epochs.epoch_for_offset(start)
        case -3:
            found = log.offset_of_max_timestamp(end_offset)
        case -5 | -6:
            return nothing  # there is no tiered storage
        case _:
            found = log.offset_for_timestamp(timestamp, end_offset)
    return nothing if found is None else found


def offset_for_leader_epoch(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, OffsetForLeaderEpochRequest)
    topics = []
    for topic in message.topics:
        partitions = []
        for asked in topic.partitions:
            partitions.append(_epoch_end(broker.led(topic.topic, asked.partition, now), asked))
            yield LOOKUP_COST
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions)))
        yield 1
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _epoch_end(partition: Partition | ErrorCode, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    if isinstance(partition, Partition):
        error = partition.check_leader_epoch(asked.current_leader_epoch)
    else:
        error = partition
    if error is not ErrorCode.NONE:
        return EpochEndOffset(error_code=error, partition=asked.partition)
    assert isinstance(partition, Partition)
    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )


def delete_records(request: Request, broker: Broker, now: Now) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, DeleteRecordsRequest)
    topics: list[DeleteRecordsTopicResult] = []
    deleted: list[Deleted] = []
    for topic in message.topics:
        partitions: list[DeleteRecordsPartitionResult] = []
        for asked in topic.partitions:
            partition = broker.led(topic.name, asked.partition_index, now)
            result = _delete_below(partition, asked.partition_index, asked.offset)
            if isinstance(partition, Partition) and not result.error_code:
                place = len(topics), len(partitions)
                deleted.append(Deleted(place, partition, result.low_watermark))
            partitions.append(result)
            yield TIMESTAMP_COST
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(partitions)))
        yield 1
    response = DeleteRecordsResponse(topics=tuple(topics))
    return wait_for_low_watermarks(broker, response, deleted, message.timeout_ms, now)


def _delete_below(
    partition: Partition | ErrorCode, index: int, offset: Offset
) -> DeleteRecordsPartitionResult:
    """The result, with the leader's new start where the low watermark will have to be."""
    error, start = ErrorCode.NONE, -1
    if isinstance(partition, ErrorCode):
        error = partition
    elif partition.topic in INTERNAL_TOPICS:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif "delete" not in partition.log.config.cleanup_policy:
        error = ErrorCode.POLICY_VIOLATION
    else:
        target = partition.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= partition.high_watermark:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            partition.advance_log_start_offset(target)
            start = target
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=start, error_code=error
    )
