"""Carries a client's request from a broker to the controller, with who sent it."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16


class EnvelopeRequest(Message, key=58):
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes


class EnvelopeResponse(Message, key=58):
    response_data: bytes | None = None
    error_code: int16
