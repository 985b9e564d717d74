"""Shows KIP-848 groups and their members."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int16, int32, since


class ConsumerGroupDescribeRequest(Message, key=69):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


class TopicPartitions(Struct):
    topic_id: Uuid
    topic_name: str
    partitions: tuple[int32, ...]


class Assignment(Struct):
    topic_partitions: tuple[TopicPartitions, ...]


class Member(Struct):
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int8 = since(1, default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: int16
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: int32
    assignment_epoch: int32
    assignor_name: str
    members: tuple[Member, ...]
    authorized_operations: int32 = -2147483648


class ConsumerGroupDescribeResponse(Message, key=69):
    throttle_time_ms: int32 = 0
    groups: tuple[DescribedGroup, ...]
