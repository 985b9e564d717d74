"""Share groups (KIP-932)."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int32, int64, tagged


class ShareGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]


class ShareGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: tuple[TopicPartitions, ...]


class ShareGroupMemberMetadataKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class ShareGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]


class ShareGroupMetadataKey(Message, versions=(0, 0)):
    group_id: str


class ShareGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    epoch: int32
    metadata_hash: int64


class ShareGroupStatePartitionMetadataKey(Message, versions=(0, 0)):
    group_id: str


class NamedTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: str
    partitions: tuple[int32, ...]


class NamedTopic(Struct):
    topic_id: Uuid
    topic_name: str


class ShareGroupStatePartitionMetadataValue(Message, versions=(0, 0), flexible=0):
    initializing_topics: tuple[NamedTopicPartitions, ...]
    initialized_topics: tuple[NamedTopicPartitions, ...]
    deleting_topics: tuple[NamedTopic, ...]


class ShareGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]


class ShareGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    topic_partitions: tuple[TopicPartition, ...]


class ShareGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    group_id: str


class ShareGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    assignment_epoch: int32
    assignment_timestamp: int64 = tagged(0, since=0, default=0, ignorable=True)
