"""Deletes the stored state of a share group's partitions."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32


class PartitionData(Struct):
    partition: int32


class DeleteStateData(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class DeleteShareGroupStateRequest(Message, key=86):
    group_id: str
    topics: tuple[DeleteStateData, ...]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: str | None = None


class DeleteStateResult(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionResult, ...]


class DeleteShareGroupStateResponse(Message, key=86):
    results: tuple[DeleteStateResult, ...]
