"""Prolongs a delegation token."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, int64


class RenewDelegationTokenRequest(Message, key=39):
    hmac: bytes
    renew_period_ms: int64


class RenewDelegationTokenResponse(Message, key=39):
    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
