"""Records about the whole cluster: configs, features, producer ids, transactions of records."""

from __future__ import annotations

from tidelog.wire.declare import Message, int8, int16, int32, int64, tagged


class ConfigRecord(Message, versions=(0, 0), flexible=0):
    resource_type: int8
    resource_name: str
    name: str
    value: str | None
    """None deletes it."""


class FeatureLevelRecord(Message, versions=(0, 0), flexible=0):
    name: str
    feature_level: int16
    """0 removes it."""


class ProducerIdsRecord(Message, versions=(0, 0), flexible=0):
    broker_id: int32
    broker_epoch: int64 = -1
    next_producer_id: int64


class NoOpRecord(Message, versions=(0, 0), flexible=0):
    """The pulse of an idle controller."""


class ZkMigrationStateRecord(Message, versions=(0, 0), flexible=0):
    """Of old logs."""

    zk_migration_state: int8


class BeginTransactionRecord(Message, versions=(0, 0), flexible=0):
    """Nothing that follows is shown before the end, and nothing at all after an abort."""

    name: str | None = tagged(0, since=0, default=None)


class EndTransactionRecord(Message, versions=(0, 0), flexible=0):
    pass


class AbortTransactionRecord(Message, versions=(0, 0), flexible=0):
    reason: str | None = tagged(0, since=0, default=None)
