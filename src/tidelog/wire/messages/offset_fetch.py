"""Tells how far a group has read. Version 8 asks for several groups at once."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, until


class OffsetFetchRequestTopic(Struct):
    name: str
    partition_indexes: tuple[int32, ...]


class OffsetFetchRequestTopics(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: tuple[int32, ...]


class OffsetFetchRequestGroup(Struct):
    group_id: str
    member_id: str | None = since(9, default=None, ignorable=True)
    member_epoch: int32 = since(9, default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopics, ...] | None


class OffsetFetchRequest(Message, key=9):
    group_id: str = until(7, default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = until(7, default=(), nullable=2)
    groups: tuple[OffsetFetchRequestGroup, ...] = since(8, default=())
    require_stable: bool = since(7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = since(5, default=-1, ignorable=True)
    metadata: str | None
    error_code: int16


class OffsetFetchResponseTopic(Struct):
    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = -1
    metadata: str | None
    error_code: int16


class OffsetFetchResponseTopics(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetFetchResponsePartitions, ...]


class OffsetFetchResponseGroup(Struct):
    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: int16 = 0


class OffsetFetchResponse(Message, key=9):
    throttle_time_ms: int32 = since(3, default=0, ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = until(7, default=())
    error_code: int16 = since(2, default=0, until=7, ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = since(8, default=())
