"""Removes a broker's registration."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32


class UnregisterBrokerRequest(Message, key=64):
    broker_id: int32


class UnregisterBrokerResponse(Message, key=64):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
