"""Shows the access rules that match a filter."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32


class DescribeAclsRequest(Message, key=29):
    resource_type_filter: int8
    resource_name_filter: str | None
    pattern_type_filter: int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int8
    permission_type: int8


class AclDescription(Struct):
    principal: str
    host: str
    operation: int8
    permission_type: int8


class DescribeAclsResource(Struct):
    resource_type: int8
    resource_name: str
    pattern_type: int8 = 3
    acls: tuple[AclDescription, ...]


class DescribeAclsResponse(Message, key=29):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...]
