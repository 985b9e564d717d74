"""Chooses the SASL mechanism of a connection."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16


class SaslHandshakeRequest(Message, key=17):
    mechanism: str


class SaslHandshakeResponse(Message, key=17):
    error_code: int16
    mechanisms: tuple[str, ...]
