"""Tells which broker coordinates a group or a transaction; since version 4, several at once."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, since, until


class FindCoordinatorRequest(Message, key=10):
    key: str = until(3, default="")
    key_type: int8 = since(1, default=0)
    coordinator_keys: tuple[str, ...] = since(4, default=())


class Coordinator(Struct):
    key: str
    node_id: int32
    host: str
    port: int32
    error_code: int16
    error_message: str | None


class FindCoordinatorResponse(Message, key=10):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16 = until(3, default=0)
    error_message: str | None = since(1, default="", until=3, ignorable=True)
    node_id: int32 = until(3, default=0)
    host: str = until(3, default="")
    port: int32 = until(3, default=0)
    coordinators: tuple[Coordinator, ...] = since(4, default=())
