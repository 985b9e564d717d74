"""Creates the stored state of a share group's partitions."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    start_offset: int64


class InitializeStateData(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class InitializeShareGroupStateRequest(Message, key=83):
    group_id: str
    topics: tuple[InitializeStateData, ...]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: str | None = None


class InitializeStateResult(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionResult, ...]


class InitializeShareGroupStateResponse(Message, key=83):
    results: tuple[InitializeStateResult, ...]
