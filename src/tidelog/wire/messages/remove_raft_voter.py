"""Removes a voter from the metadata quorum."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, int16, int32


class RemoveRaftVoterRequest(Message, key=81):
    cluster_id: str | None
    voter_id: int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Message, key=81):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
