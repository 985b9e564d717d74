"""What precedes every request and every response in its frame."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, since


class RequestHeader(Message, versions=(1, 2), flexible=2):
    request_api_key: int16
    request_api_version: int16
    correlation_id: int32
    client_id: str | None = since(1, default="", compact=False)


class ResponseHeader(Message, versions=(0, 1), flexible=1):
    correlation_id: int32
