"""Carries one step of a SASL exchange."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int64, since


class SaslAuthenticateRequest(Message, key=36):
    auth_bytes: bytes


class SaslAuthenticateResponse(Message, key=36):
    error_code: int16
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int64 = since(1, default=0, ignorable=True)
