"""Raises or lowers the finalized levels of the cluster's features."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, since, until


class FeatureUpdateKey(Struct):
    feature: str
    max_version_level: int16
    allow_downgrade: bool = until(0, default=False)
    upgrade_type: int8 = since(1, default=1)


class UpdateFeaturesRequest(Message, key=57):
    timeout_ms: int32 = 60000
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool = since(1, default=False)


class UpdatableFeatureResult(Struct):
    feature: str
    error_code: int16
    error_message: str | None


class UpdateFeaturesResponse(Message, key=57):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
    results: tuple[UpdatableFeatureResult, ...] = until(1, default=(), ignorable=True)
