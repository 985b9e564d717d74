"""Creates access rules."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32


class AclCreation(Struct):
    resource_type: int8
    resource_name: str
    resource_pattern_type: int8 = 3
    principal: str
    host: str
    operation: int8
    permission_type: int8


class CreateAclsRequest(Message, key=30):
    creations: tuple[AclCreation, ...]


class AclCreationResult(Struct):
    error_code: int16
    error_message: str | None


class CreateAclsResponse(Message, key=30):
    throttle_time_ms: int32 = 0
    results: tuple[AclCreationResult, ...]
