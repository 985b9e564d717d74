"""Shows the moves of partitions that are under way."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32


class ListPartitionReassignmentsTopics(Struct):
    name: str
    partition_indexes: tuple[int32, ...]


class ListPartitionReassignmentsRequest(Message, key=46):
    timeout_ms: int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: int32
    replicas: tuple[int32, ...]
    adding_replicas: tuple[int32, ...]
    removing_replicas: tuple[int32, ...]


class OngoingTopicReassignment(Struct):
    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


class ListPartitionReassignmentsResponse(Message, key=46):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]
