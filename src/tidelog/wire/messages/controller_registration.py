"""A controller makes its endpoints and features known to the active controller."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, uint16


class Listener(Struct):
    name: str
    host: str
    port: uint16
    security_protocol: int16


class Feature(Struct):
    name: str
    min_supported_version: int16
    max_supported_version: int16


class ControllerRegistrationRequest(Message, key=70):
    controller_id: int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...]


class ControllerRegistrationResponse(Message, key=70):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
