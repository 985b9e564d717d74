"""A client asks which of its metrics the broker wants (KIP-714)."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, int8, int16, int32


class GetTelemetrySubscriptionsRequest(Message, key=71):
    client_instance_id: Uuid


class GetTelemetrySubscriptionsResponse(Message, key=71):
    throttle_time_ms: int32 = 0
    error_code: int16
    client_instance_id: Uuid
    subscription_id: int32
    accepted_compression_types: tuple[int8, ...]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: bool
    requested_metrics: tuple[str, ...]
