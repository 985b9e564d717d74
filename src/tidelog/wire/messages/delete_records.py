"""Moves the log start offset of partitions up, so that what lies below can go."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64


class DeleteRecordsPartition(Struct):
    partition_index: int32
    offset: int64


class DeleteRecordsTopic(Struct):
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


class DeleteRecordsRequest(Message, key=21):
    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32
    low_watermark: int64
    error_code: int16


class DeleteRecordsTopicResult(Struct):
    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


class DeleteRecordsResponse(Message, key=21):
    throttle_time_ms: int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...]
