"""Adds a voter to the metadata quorum."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, since, uint16


class Listener(Struct):
    name: str
    host: str
    port: uint16


class AddRaftVoterRequest(Message, key=80):
    cluster_id: str | None
    timeout_ms: int32
    voter_id: int32
    voter_directory_id: Uuid
    listeners: tuple[Listener, ...]
    ack_when_committed: bool = since(1, default=True)


class AddRaftVoterResponse(Message, key=80):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
