"""A broker that starts makes itself known to the controller and gets its broker epoch."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, uint16


class Listener(Struct):
    name: str
    host: str
    port: uint16
    security_protocol: int16


class Feature(Struct):
    name: str
    min_supported_version: int16
    max_supported_version: int16


class BrokerRegistrationRequest(Message, key=62):
    broker_id: int32
    cluster_id: str
    incarnation_id: Uuid
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...]
    rack: str | None
    is_migrating_zk_broker: bool = since(1, default=False)
    log_dirs: tuple[Uuid, ...] = since(2, default=(), ignorable=True)
    previous_broker_epoch: int64 = since(3, default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, key=62):
    throttle_time_ms: int32 = 0
    error_code: int16
    broker_epoch: int64 = -1
