"""Groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int32, int64, tagged


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]
    assignment_epochs: tuple[int32, ...] | None = tagged(0, since=0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...]


class ConsumerGroupMemberMetadataKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class ClassicProtocol(Struct):
    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int32 = -1
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = tagged(0, since=0, default=None)


class ConsumerGroupMetadataKey(Message, versions=(0, 0)):
    group_id: str


class ConsumerGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    epoch: int32
    metadata_hash: int64 = tagged(0, since=0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, versions=(0, 0)):
    group_id: str


class PartitionMetadata(Struct):
    partition: int32
    racks: tuple[str, ...]


class TopicMetadata(Struct):
    topic_id: Uuid
    topic_name: str
    num_partitions: int32
    partition_metadata: tuple[PartitionMetadata, ...]


class ConsumerGroupPartitionMetadataValue(Message, versions=(0, 0), flexible=0):
    topics: tuple[TopicMetadata, ...]


class ConsumerGroupRegularExpressionKey(Message, versions=(0, 0)):
    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Message, versions=(0, 0), flexible=0):
    topics: tuple[str, ...]
    version: int64
    timestamp: int64


class ConsumerGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    group_id: str
    member_id: str


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]


class ConsumerGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    topic_partitions: tuple[TopicPartition, ...]


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    group_id: str


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    assignment_epoch: int32
    assignment_timestamp: int64 = tagged(0, since=0, default=0, ignorable=True)
