"""Replaces the whole dynamic configuration of a resource; IncrementalAlterConfigs is kinder."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32


class AlterableConfig(Struct):
    name: str
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: int8
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class AlterConfigsRequest(Message, key=33):
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


class AlterConfigsResourceResponse(Struct):
    error_code: int16
    error_message: str | None
    resource_type: int8
    resource_name: str


class AlterConfigsResponse(Message, key=33):
    throttle_time_ms: int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...]
