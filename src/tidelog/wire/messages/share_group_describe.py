"""Shows share groups and their members."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32


class ShareGroupDescribeRequest(Message, key=77):
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
    rack_id: str | None = None
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: Assignment


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


class ShareGroupDescribeResponse(Message, key=77):
    throttle_time_ms: int32 = 0
    groups: tuple[DescribedGroup, ...]
