"""The whole of the KIP-848 protocol for a member: joins, reports, receives, leaves."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, since


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]


class ConsumerGroupHeartbeatRequest(Message, key=68):
    group_id: str
    member_id: str
    member_epoch: int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = since(1, default=None)
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]


class Assignment(Struct):
    topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...]


class ConsumerGroupHeartbeatResponse(Message, key=68):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = None
