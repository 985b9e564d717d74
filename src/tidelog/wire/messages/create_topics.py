"""Creates topics, placed by the controller or by the caller."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int8, int16, int32, since, tagged


class CreatableReplicaAssignment(Struct):
    partition_index: int32
    broker_ids: tuple[int32, ...]


class CreatableTopicConfig(Struct):
    name: str
    value: str | None


class CreatableTopic(Struct):
    name: str
    num_partitions: int32
    replication_factor: int16
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


class CreateTopicsRequest(Message, key=19):
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int32 = 60000
    validate_only: bool = False


class CreatableTopicConfigs(Struct):
    name: str
    value: str | None
    read_only: bool
    config_source: int8 = -1
    is_sensitive: bool


class CreatableTopicResult(Struct):
    name: str
    topic_id: Uuid = since(7, default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: str | None
    topic_config_error_code: int16 = tagged(0, since=5, default=0, ignorable=True)
    num_partitions: int32 = since(5, default=-1, ignorable=True)
    replication_factor: int16 = since(5, default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = since(5, default=(), ignorable=True)


class CreateTopicsResponse(Message, key=19):
    throttle_time_ms: int32 = 0
    topics: tuple[CreatableTopicResult, ...]
