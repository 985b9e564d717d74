"""Shows classic groups and their members."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, since


class DescribeGroupsRequest(Message, key=15):
    groups: tuple[str, ...]
    include_authorized_operations: bool = since(3, default=False)


class DescribedGroupMember(Struct):
    member_id: str
    group_instance_id: str | None = since(4, default=None, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(Struct):
    error_code: int16
    error_message: str | None = since(6, default=None)
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: int32 = since(3, default=-2147483648)


class DescribeGroupsResponse(Message, key=15):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    groups: tuple[DescribedGroup, ...]
