"""Keeps a member of a share group alive and brings its assignment."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32


class ShareGroupHeartbeatRequest(Message, key=76):
    group_id: str
    member_id: str
    member_epoch: int32
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]


class Assignment(Struct):
    topic_partitions: tuple[TopicPartitions, ...]


class ShareGroupHeartbeatResponse(Message, key=76):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = None
