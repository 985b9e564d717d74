"""Finds offsets by time, and deletes records below one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.client.cluster import Cluster, TopicPartition
from tidelog.client.routing import (
    Attempts,
    PartitionCall,
    PartitionResult,
    ask_leaders,
    group_by_topic,
)
from tidelog.client.steps import Steps
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

CONSUMER = -1
DEBUGGER = -2
"""As replica id: sees what lies beyond the high watermark, so that LATEST is the log end offset."""

NOT_FOUND: Offset = -1
"""No record is that young."""


class IsolationLevel(IntEnum):
    """Whether a reader sees transactions that are not committed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ListedOffset(NamedTuple):
    """A record's place and time; the offset is NOT_FOUND if no record fits."""

    offset: Offset
    timestamp: int
    """-1 for LATEST and EARLIEST: these need not be a record's."""
    leader_epoch: int


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    replica_id: int = CONSUMER,
    timeout_ms: int | None = None,
) -> Steps[dict[TopicPartition, ListedOffset]]:
    """Of each partition the first record of that time or later, or what the special
    timestamps mean. With READ_COMMITTED, LATEST is the last stable offset."""

    def request(cluster: Cluster, work: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topics = tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=index,
                        current_leader_epoch=cluster.topics[topic].leaders[index].leader_epoch,
                        timestamp=timestamp,
                    )
                    for index, timestamp in partitions
                ),
            )
            for topic, partitions in group_by_topic(work).items()
        )
        return ListOffsetsRequest(
            replica_id=replica_id,
            isolation_level=isolation,
            topics=topics,
            timeout_ms=attempts.request_timeout_ms,
        )

    attempts = Attempts(cluster, timeout_ms)
    call = PartitionCall(request, _listed)
    return (yield from ask_leaders(cluster, call, timestamps, attempts))


def _listed(cluster: Cluster, answer: Message) -> Iterator[PartitionResult[ListedOffset]]:
    assert isinstance(answer, ListOffsetsResponse)
    for topic in answer.topics:
        for found in topic.partitions:
            yield PartitionResult(
                TopicPartition(topic.name, found.partition_index),
                found.error_code,
                None,
                ListedOffset(found.offset, found.timestamp, found.leader_epoch),
            )


def delete_records(
    cluster: Cluster,
    before: Mapping[TopicPartition, Offset],
    *,
    timeout_ms: int | None = None,
) -> Steps[dict[TopicPartition, Offset]]:
    """Delete the records below an offset (-1: all of them); the new log start offsets."""

    def request(cluster: Cluster, work: Mapping[TopicPartition, Offset]) -> DeleteRecordsRequest:
        topics = tuple(
            DeleteRecordsTopic(
                name=topic,
                partitions=tuple(
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in partitions
                ),
            )
            for topic, partitions in group_by_topic(work).items()
        )
        return DeleteRecordsRequest(topics=topics, timeout_ms=attempts.request_timeout_ms)

    attempts = Attempts(cluster, timeout_ms)
    call = PartitionCall(request, _deleted)
    return (yield from ask_leaders(cluster, call, before, attempts))


def _deleted(cluster: Cluster, answer: Message) -> Iterator[PartitionResult[Offset]]:
    assert isinstance(answer, DeleteRecordsResponse)
    for topic in answer.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.name, result.partition_index)
            yield PartitionResult(partition, result.error_code, None, result.low_watermark)
