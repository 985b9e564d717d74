"""Stores a group's offsets as part of a transaction."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = since(2, default=-1, ignorable=True)
    committed_metadata: str | None


class TxnOffsetCommitRequestTopic(Struct):
    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


class TxnOffsetCommitRequest(Message, key=28):
    transactional_id: str
    group_id: str
    producer_id: int64
    producer_epoch: int16
    generation_id: int32 = since(3, default=-1)
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16


class TxnOffsetCommitResponseTopic(Struct):
    name: str
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


class TxnOffsetCommitResponse(Message, key=28):
    throttle_time_ms: int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...]
