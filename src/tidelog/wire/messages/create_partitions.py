"""Raises the number of a topic's partitions."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32


class CreatePartitionsAssignment(Struct):
    broker_ids: tuple[int32, ...]


class CreatePartitionsTopic(Struct):
    name: str
    count: int32
    assignments: tuple[CreatePartitionsAssignment, ...] | None


class CreatePartitionsRequest(Message, key=37):
    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int32
    validate_only: bool


class CreatePartitionsTopicResult(Struct):
    name: str
    error_code: int16
    error_message: str | None = None


class CreatePartitionsResponse(Message, key=37):
    throttle_time_ms: int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...]
