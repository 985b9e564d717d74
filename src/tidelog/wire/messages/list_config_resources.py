"""Lists the resources that have a configuration, by type."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, since


class ListConfigResourcesRequest(Message, key=74):
    resource_types: tuple[int8, ...] = since(1, default=())


class ConfigResource(Struct):
    resource_name: str
    resource_type: int8 = since(1, default=16, ignorable=True)


class ListConfigResourcesResponse(Message, key=74):
    throttle_time_ms: int32 = 0
    error_code: int16
    config_resources: tuple[ConfigResource, ...]
