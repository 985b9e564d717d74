"""Shows the configuration of topics, brokers and groups, with where each value comes from."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, since


class DescribeConfigsResource(Struct):
    resource_type: int8
    resource_name: str
    configuration_keys: tuple[str, ...] | None


class DescribeConfigsRequest(Message, key=32):
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = since(3, default=False)


class DescribeConfigsSynonym(Struct):
    name: str
    value: str | None
    source: int8


class DescribeConfigsResourceResult(Struct):
    name: str
    value: str | None
    read_only: bool
    config_source: int8 = -1
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int8 = since(3, default=0, ignorable=True)
    documentation: str | None = since(3, default="", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int16
    error_message: str | None
    resource_type: int8
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]


class DescribeConfigsResponse(Message, key=32):
    throttle_time_ms: int32 = 0
    results: tuple[DescribeConfigsResult, ...]
