"""Sets the start offsets of a share group."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int32
    start_offset: int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]


class AlterShareGroupOffsetsRequest(Message, key=91):
    group_id: str
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    error_code: int16
    error_message: str | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str
    topic_id: Uuid
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]


class AlterShareGroupOffsetsResponse(Message, key=91):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...]
