"""Shows the start offsets of share groups."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str
    partitions: tuple[int32, ...]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None


class DescribeShareGroupOffsetsRequest(Message, key=90):
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    start_offset: int64
    leader_epoch: int32
    lag: int64 = since(1, default=-1, ignorable=True)
    error_code: int16
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str
    topic_id: Uuid
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...]
    error_code: int16
    error_message: str | None = None


class DescribeShareGroupOffsetsResponse(Message, key=90):
    throttle_time_ms: int32 = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]
