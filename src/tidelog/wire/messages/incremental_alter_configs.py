"""Sets, deletes, appends to and subtracts from single configuration values."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32


class AlterableConfig(Struct):
    name: str
    config_operation: int8
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: int8
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class IncrementalAlterConfigsRequest(Message, key=44):
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


class AlterConfigsResourceResponse(Struct):
    error_code: int16
    error_message: str | None
    resource_type: int8
    resource_name: str


class IncrementalAlterConfigsResponse(Message, key=44):
    throttle_time_ms: int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...]
