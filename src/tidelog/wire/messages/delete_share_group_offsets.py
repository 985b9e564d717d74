"""Deletes the start offsets of a share group."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str


class DeleteShareGroupOffsetsRequest(Message, key=92):
    group_id: str
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str
    topic_id: Uuid
    error_code: int16
    error_message: str | None = None


class DeleteShareGroupOffsetsResponse(Message, key=92):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...]
