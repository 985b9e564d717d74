"""A client sends its metrics (KIP-714)."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, int8, int16, int32


class PushTelemetryRequest(Message, key=72):
    client_instance_id: Uuid
    subscription_id: int32
    terminating: bool
    compression_type: int8
    metrics: bytes


class PushTelemetryResponse(Message, key=72):
    throttle_time_ms: int32 = 0
    error_code: int16
