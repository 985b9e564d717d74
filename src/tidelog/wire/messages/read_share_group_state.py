"""Reads the stored state of a share group's partitions."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadStateData(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class ReadShareGroupStateRequest(Message, key=84):
    group_id: str
    topics: tuple[ReadStateData, ...]


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: str | None = None
    state_epoch: int32
    start_offset: int64
    state_batches: tuple[StateBatch, ...]


class ReadStateResult(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionResult, ...]


class ReadShareGroupStateResponse(Message, key=84):
    results: tuple[ReadStateResult, ...]
