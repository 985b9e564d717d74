"""Reads the start offsets of a share group's partitions, without their details."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadStateSummaryData(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class ReadShareGroupStateSummaryRequest(Message, key=87):
    group_id: str
    topics: tuple[ReadStateSummaryData, ...]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: str | None = None
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = since(1, default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionResult, ...]


class ReadShareGroupStateSummaryResponse(Message, key=87):
    results: tuple[ReadStateSummaryResult, ...]
