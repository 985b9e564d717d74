"""Brings a classic group's assignment from its leader to its members."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, since


class SyncGroupRequestAssignment(Struct):
    member_id: str
    assignment: bytes


class SyncGroupRequest(Message, key=14):
    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignments: tuple[SyncGroupRequestAssignment, ...]


class SyncGroupResponse(Message, key=14):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignment: bytes
