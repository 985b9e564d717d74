"""Takes members out of a classic group. Version 3 takes out several at once."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, since, until


class MemberIdentity(Struct):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = since(5, default=None, ignorable=True)


class LeaveGroupRequest(Message, key=13):
    group_id: str
    member_id: str = until(2, default="")
    members: tuple[MemberIdentity, ...] = since(3, default=())


class MemberResponse(Struct):
    member_id: str
    group_instance_id: str | None
    error_code: int16


class LeaveGroupResponse(Message, key=13):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16
    members: tuple[MemberResponse, ...] = since(3, default=())
