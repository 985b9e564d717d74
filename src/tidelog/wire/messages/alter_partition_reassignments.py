"""Moves partitions to other replicas, or cancels such moves."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, since


class ReassignablePartition(Struct):
    partition_index: int32
    replicas: tuple[int32, ...] | None = None


class ReassignableTopic(Struct):
    name: str
    partitions: tuple[ReassignablePartition, ...]


class AlterPartitionReassignmentsRequest(Message, key=45):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: tuple[ReassignableTopic, ...]


class ReassignablePartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    error_message: str | None


class ReassignableTopicResponse(Struct):
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


class AlterPartitionReassignmentsResponse(Message, key=45):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: bool = since(1, default=True, ignorable=True)
    error_code: int16
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]
