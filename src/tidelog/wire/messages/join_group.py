"""Makes a consumer a member of a classic group; answered when the group has gathered."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, nullable, since


class JoinGroupRequestProtocol(Struct):
    name: str
    metadata: bytes


class JoinGroupRequest(Message, key=11):
    group_id: str
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = since(1, default=-1, ignorable=True)
    member_id: str
    group_instance_id: str | None = since(5, default=None)
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None = since(8, default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str
    group_instance_id: str | None = since(5, default=None, ignorable=True)
    metadata: bytes


class JoinGroupResponse(Message, key=11):
    throttle_time_ms: int32 = since(2, default=0, ignorable=True)
    error_code: int16
    generation_id: int32 = -1
    protocol_type: str | None = since(7, default=None, ignorable=True)
    protocol_name: str | None = nullable(7)
    leader: str
    skip_assignment: bool = since(9, default=False)
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]
