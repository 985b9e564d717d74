"""Describes topics page by page, with the eligible leader replicas."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32


class TopicRequest(Struct):
    name: str


class Cursor(Struct):
    topic_name: str
    partition_index: int32


class DescribeTopicPartitionsRequest(Message, key=75):
    topics: tuple[TopicRequest, ...]
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = -1
    replica_nodes: tuple[int32, ...]
    isr_nodes: tuple[int32, ...]
    eligible_leader_replicas: tuple[int32, ...] | None = None
    last_known_elr: tuple[int32, ...] | None = None
    offline_replicas: tuple[int32, ...]


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16
    name: str | None
    topic_id: Uuid
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: int32 = -2147483648


class DescribeTopicPartitionsResponseCursor(Struct):
    topic_name: str
    partition_index: int32


class DescribeTopicPartitionsResponse(Message, key=75):
    throttle_time_ms: int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None
