"""Deletes empty groups."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32


class DeleteGroupsRequest(Message, key=42):
    groups_names: tuple[str, ...]


class DeletableGroupResult(Struct):
    group_id: str
    error_code: int16


class DeleteGroupsResponse(Message, key=42):
    throttle_time_ms: int32 = 0
    results: tuple[DeletableGroupResult, ...]
