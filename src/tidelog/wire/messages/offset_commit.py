"""Stores how far a group has read. Version 9 serves the KIP-848 protocol, 10 names topics by id."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, until


class OffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = since(6, default=-1, ignorable=True)
    committed_metadata: str | None


class OffsetCommitRequestTopic(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...]


class OffsetCommitRequest(Message, key=8):
    group_id: str
    generation_id_or_member_epoch: int32 = -1
    member_id: str
    group_instance_id: str | None = since(7, default=None)
    retention_time_ms: int64 = until(4, default=-1, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...]


class OffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16


class OffsetCommitResponseTopic(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...]


class OffsetCommitResponse(Message, key=8):
    throttle_time_ms: int32 = since(3, default=0, ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...]
