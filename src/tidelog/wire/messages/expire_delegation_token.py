"""Ends a delegation token, now or at a given time."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, int64


class ExpireDelegationTokenRequest(Message, key=40):
    hmac: bytes
    expiry_time_period_ms: int64


class ExpireDelegationTokenResponse(Message, key=40):
    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
