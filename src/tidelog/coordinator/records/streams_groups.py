"""Groups of the streams protocol (KIP-1071)."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, tagged, uint16


class StreamsGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class TaskIds(Struct):
    subtopology_id: str
    partitions: tuple[int32, ...]
    assignment_epochs: tuple[int32, ...] | None = tagged(0, since=0, default=None)


class StreamsGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]
    active_tasks_pending_revocation: tuple[TaskIds, ...]
    standby_tasks_pending_revocation: tuple[TaskIds, ...]
    warmup_tasks_pending_revocation: tuple[TaskIds, ...]


class StreamsGroupMemberMetadataKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class Endpoint(Struct):
    host: str
    port: uint16


class KeyValue(Struct):
    key: str
    value: str


class StreamsGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32
    process_id: str
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...]


class StreamsGroupMetadataKey(Message, versions=(0, 0)):
    group_id: str


class LastAssignmentConfig(Struct):
    key: str
    value: str


class StreamsGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    epoch: int32
    metadata_hash: int64
    validated_topology_epoch: int32 = tagged(0, since=0, default=-1)
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = tagged(
        1, since=0, default=None
    )


class StreamsGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class TargetTaskIds(Struct):
    subtopology_id: str
    partitions: tuple[int32, ...]


class StreamsGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    active_tasks: tuple[TargetTaskIds, ...]
    standby_tasks: tuple[TargetTaskIds, ...]
    warmup_tasks: tuple[TargetTaskIds, ...]


class StreamsGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    group_id: str


class StreamsGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    assignment_epoch: int32
    assignment_timestamp: int64 = tagged(0, since=0, default=0, ignorable=True)


class StreamsGroupTopologyKey(Message, versions=(0, 0)):
    group_id: str


class CopartitionGroup(Struct):
    source_topics: tuple[int16, ...]
    source_topic_regex: tuple[int16, ...]
    repartition_source_topics: tuple[int16, ...]


class TopicConfig(Struct):
    key: str
    value: str


class TopicOfSubtopology(Struct):
    name: str
    partitions: int32
    replication_factor: int16
    topic_configs: tuple[TopicConfig, ...]


class Subtopology(Struct):
    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[TopicOfSubtopology, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopicOfSubtopology, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


class StreamsGroupTopologyValue(Message, versions=(0, 0), flexible=0):
    epoch: int32
    subtopologies: tuple[Subtopology, ...]
