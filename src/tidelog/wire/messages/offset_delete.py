"""Forgets how far a group has read in the given partitions."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32


class OffsetDeleteRequestTopic(Struct):
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


class OffsetDeleteRequest(Message, key=47):
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32
    error_code: int16


class OffsetDeleteResponseTopic(Struct):
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


class OffsetDeleteResponse(Message, key=47):
    error_code: int16
    throttle_time_ms: int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...]
