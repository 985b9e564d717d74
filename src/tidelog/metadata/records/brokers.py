"""Records about nodes: brokers register, are fenced and unfenced, stop; controllers register."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, since, tagged, uint16


class BrokerEndpoint(Struct):
    name: str
    host: str
    port: uint16
    security_protocol: int16


class BrokerFeature(Struct):
    name: str
    min_supported_version: int16
    max_supported_version: int16


class RegisterBrokerRecord(Message, versions=(0, 4), flexible=0):
    broker_id: int32
    is_migrating_zk_broker: bool = since(2, default=False)
    incarnation_id: Uuid
    broker_epoch: int64
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: bool = since(1, default=False)
    log_dirs: tuple[Uuid, ...] = tagged(0, since=3, default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = tagged(1, since=4, default=None)


class UnregisterBrokerRecord(Message, versions=(0, 0), flexible=0):
    broker_id: int32
    broker_epoch: int64


class FenceBrokerRecord(Message, versions=(0, 0), flexible=0):
    """Of old logs; BrokerRegistrationChangeRecord took its place."""

    id: int32
    epoch: int64


class UnfenceBrokerRecord(Message, versions=(0, 0), flexible=0):
    """Of old logs; BrokerRegistrationChangeRecord took its place."""

    id: int32
    epoch: int64


class BrokerRegistrationChangeRecord(Message, versions=(0, 3), flexible=0):
    broker_id: int32
    broker_epoch: int64
    fenced: int8 = tagged(0, since=0, default=0)
    """-1 unfenced, 1 fenced, 0 as before."""
    in_controlled_shutdown: int8 = tagged(1, since=1, default=0)
    log_dirs: tuple[Uuid, ...] = tagged(2, since=2, default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = tagged(3, since=3, default=None)


class ControllerEndpoint(Struct):
    name: str
    host: str
    port: uint16
    security_protocol: int16


class ControllerFeature(Struct):
    name: str
    min_supported_version: int16
    max_supported_version: int16


class RegisterControllerRecord(Message, versions=(0, 0), flexible=0):
    controller_id: int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    end_points: tuple[ControllerEndpoint, ...]
    features: tuple[ControllerFeature, ...]
