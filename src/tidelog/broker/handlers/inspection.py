"""DescribeLogDirs, DescribeProducers, FindCoordinator: what tools ask about a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.log_dirs import is_cordoned
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.log_dir import LogDir
from tidelog.replica.partition import Partition
from tidelog.slices import Slices, each
from tidelog.wire.declare import Message
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

BATCHED_SINCE = 4
KEY_TYPES = (0, 1, 2)
"""Group, transaction, share."""
NO_COORDINATOR = "groups and transactions are not there yet"
PARTITION_COST = 5
"""Microseconds."""


def describe_log_dirs(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, DescribeLogDirsRequest)
    wanted = None
    if message.topics is not None:
        wanted = set[tuple[str, int]]()
        for topic in message.topics:
            wanted.update((topic.topic, index) for index in topic.partitions)
            yield 1 + len(topic.partitions) // 4
    results = []
    for path in broker.log_dirs.paths:
        log_dir = next((one for one in broker.log_dirs.online if one.path == path), None)
        results.append((yield from _describe_one(path, log_dir, wanted, broker, now)))
    return DescribeLogDirsResponse(results=tuple(results))


def _describe_one(
    path: str, log_dir: LogDir | None, wanted: set[tuple[str, int]] | None, broker: Broker, now: Now
) -> Slices[DescribeLogDirsResult]:
    offline = DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=()
    )
    if log_dir is None:
        return offline
    try:
        usage = log_dir.disk.usage(path)
    except OSError as error:
        broker.hosting.fail(path, str(error), now)
        return offline
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for (topic, index), opened in list(log_dir.logs.items()):
        yield PARTITION_COST
        if wanted is None or (topic, index) in wanted:
            topics.setdefault(topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=opened.size_bytes,
                    offset_lag=0,
                    is_future_key=False,
                )
            )
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=usage.total_bytes,
        usable_bytes=usage.free_bytes,
        is_cordoned=is_cordoned(path, broker.config),
    )


def describe_producers(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, DescribeProducersRequest)
    topics = []
    for topic in message.topics:
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(_producers(broker.led(topic.name, index, now), index))
            yield PARTITION_COST
        topics.append(TopicResponse(name=topic.name, partitions=tuple(partitions)))
        yield 1
    return DescribeProducersResponse(topics=tuple(topics))


def _producers(partition: Partition | ErrorCode, index: int) -> PartitionResponse:
    if isinstance(partition, ErrorCode):
        return PartitionResponse(partition_index=index, error_code=partition, active_producers=())
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=tuple(
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=(
                    -1
                    if producer.current_txn_first_offset is None
                    else producer.current_txn_first_offset
                ),
            )
            for producer in partition.log.producers.active()
        ),
    )


def find_coordinator(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    """Nobody, so far: clients retry, and say so if they wait in vain."""
    message = request.message
    assert isinstance(message, FindCoordinatorRequest)
    code, text = ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_COORDINATOR
    if message.key_type not in KEY_TYPES:
        code, text = ErrorCode.INVALID_REQUEST, f"there is no coordinator type {message.key_type}"
    if message.coordinator_keys:
        coordinators = yield from each(
            message.coordinator_keys,
            lambda key: Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text
            ),
            PARTITION_COST,
        )
        return FindCoordinatorResponse(coordinators=coordinators)
    if request.version >= BATCHED_SINCE:
        return FindCoordinatorResponse()
    return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, port=-1)
