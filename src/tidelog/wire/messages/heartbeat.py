"""Keeps a member of a classic group alive, and tells it when the group rebalances."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, since


class HeartbeatRequest(Message, key=12):
    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)


class HeartbeatResponse(Message, key=12):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16
