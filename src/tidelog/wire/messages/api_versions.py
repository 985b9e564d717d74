"""Tells a client which APIs, versions and features the broker has: its first request.

A broker answers a version that it does not know with error 35 in the form of version 0, and
the response's header stays version 0 in all versions: the client cannot know better yet.
"""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, tagged


class ApiVersionsRequest(Message, key=18):
    client_software_name: str = since(3, default="", ignorable=True)
    client_software_version: str = since(3, default="", ignorable=True)


class ApiVersion(Struct):
    api_key: int16
    min_version: int16
    max_version: int16


class SupportedFeatureKey(Struct):
    name: str
    min_version: int16
    max_version: int16


class FinalizedFeatureKey(Struct):
    name: str
    max_version_level: int16
    min_version_level: int16


class ApiVersionsResponse(Message, key=18):
    error_code: int16
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = tagged(
        0, since=3, default=(), ignorable=True
    )
    finalized_features_epoch: int64 = tagged(1, since=3, default=-1, ignorable=True)
    finalized_features: tuple[FinalizedFeatureKey, ...] = tagged(
        2, since=3, default=(), ignorable=True
    )
    zk_migration_ready: bool = tagged(3, since=3, default=False, ignorable=True)
