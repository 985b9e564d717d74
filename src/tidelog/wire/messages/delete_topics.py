"""Deletes topics by name or, since version 6, by id."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, nullable, since, until


class DeleteTopicState(Struct):
    name: str | None = None
    topic_id: Uuid


class DeleteTopicsRequest(Message, key=20):
    topics: tuple[DeleteTopicState, ...] = since(6, default=())
    topic_names: tuple[str, ...] = until(5, default=(), ignorable=True)
    timeout_ms: int32


class DeletableTopicResult(Struct):
    name: str | None = nullable(6)
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: str | None = since(5, default=None, ignorable=True)


class DeleteTopicsResponse(Message, key=20):
    throttle_time_ms: int32 = 0
    responses: tuple[DeletableTopicResult, ...]
