"""Writes the stored state of a share group's partitions."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, since


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = since(1, default=-1, ignorable=True)
    state_batches: tuple[StateBatch, ...]


class WriteStateData(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class WriteShareGroupStateRequest(Message, key=85):
    group_id: str
    topics: tuple[WriteStateData, ...]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: str | None = None


class WriteStateResult(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionResult, ...]


class WriteShareGroupStateResponse(Message, key=85):
    results: tuple[WriteStateResult, ...]
