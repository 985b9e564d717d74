"""The only replay: what a record of the metadata log makes of an image, on every node alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from tidelog.metadata import delta_topics
from tidelog.metadata.delta_topics import UnreplayableRecord
from tidelog.metadata.image import Broker, Controller, MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.records.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from tidelog.metadata.records.security import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tidelog.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.types import Offset
from tidelog.wire.declare import Message

T = TypeVar("T")


def replay(image: MetadataImage, record: Message, offset: Offset, epoch: int) -> MetadataImage:
    """The image after the record; UnreplayableRecord if the record cannot follow it.

    Control records change nothing here: the quorum's are the quorum's own.
    """
    function = REPLAYS.get(type(record))
    changes = function(image, record) if function is not None else {}
    if isinstance(record, RegisterBrokerRecord):
        changes["brokers"] = changes["brokers"].set(
            record.broker_id, changes["brokers"][record.broker_id]._replace(registered_at=offset)
        )
    if isinstance(record, AbortTransactionRecord):
        assert image.before_transaction is not None
        image, changes = image.before_transaction, {}
    return _image_after(image, offset, epoch, changes)


_FIELDS = [field.name for field in fields(MetadataImage)]
_VALUES = attrgetter(*_FIELDS)
_INDEXES = {name: index for index, name in enumerate(_FIELDS)}


def _image_after(
    image: MetadataImage, offset: Offset, epoch: int, changes: Changes
) -> MetadataImage:
    """What dataclasses.replace does, in half of its time: of every record."""
    values = list(_VALUES(image))
    values[_INDEXES["offset"]], values[_INDEXES["epoch"]] = offset, epoch
    for name, value in changes.items():
        values[_INDEXES[name]] = value
    return MetadataImage(*values)


def replay_all(
    image: MetadataImage, records: Iterable[Message], base_offset: Offset, epoch: int
) -> MetadataImage:
    """The image after records at dense offsets."""
    for offset, record in enumerate(records, base_offset):
        image = replay(image, record, offset, epoch)
    return image


Changes = dict[str, Any]


def register_broker(image: MetadataImage, record: RegisterBrokerRecord) -> Changes:
    broker = Broker(
        broker_id=record.broker_id,
        incarnation_id=record.incarnation_id,
        broker_epoch=record.broker_epoch,
        end_points=record.end_points,
        features=record.features,
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=record.log_dirs,
        cordoned_log_dirs=record.cordoned_log_dirs,
        is_migrating_zk_broker=record.is_migrating_zk_broker,
        registered_at=-1,
    )
    return {"brokers": image.brokers.set(record.broker_id, broker)}


def _registered(image: MetadataImage, broker_id: int, epoch: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != epoch:
        known = "is not registered" if broker is None else f"has epoch {broker.broker_epoch}"
        raise UnreplayableRecord(f"broker {broker_id} {known}; the record is for epoch {epoch}")
    return broker


def unregister_broker(image: MetadataImage, record: UnregisterBrokerRecord) -> Changes:
    _registered(image, record.broker_id, record.broker_epoch)
    return {"brokers": image.brokers.remove(record.broker_id)}


def fence_broker(image: MetadataImage, record: FenceBrokerRecord) -> Changes:
    broker = _registered(image, record.id, record.epoch)
    return {"brokers": image.brokers.set(record.id, broker._replace(fenced=True))}


def unfence_broker(image: MetadataImage, record: UnfenceBrokerRecord) -> Changes:
    broker = _registered(image, record.id, record.epoch)
    return {"brokers": image.brokers.set(record.id, broker._replace(fenced=False))}


def change_registration(image: MetadataImage, record: BrokerRegistrationChangeRecord) -> Changes:
    broker = _registered(image, record.broker_id, record.broker_epoch)
    if record.fenced:
        broker = broker._replace(fenced=record.fenced > 0)
    if record.in_controlled_shutdown:
        broker = broker._replace(in_controlled_shutdown=True)
    if record.log_dirs:
        broker = broker._replace(log_dirs=record.log_dirs)
    if record.cordoned_log_dirs is not None:
        broker = broker._replace(cordoned_log_dirs=record.cordoned_log_dirs)
    return {"brokers": image.brokers.set(record.broker_id, broker)}


def register_controller(image: MetadataImage, record: RegisterControllerRecord) -> Changes:
    controller = Controller(
        record.controller_id,
        record.incarnation_id,
        record.end_points,
        record.features,
        record.zk_migration_ready,
    )
    return {"controllers": image.controllers.set(record.controller_id, controller)}


def config(image: MetadataImage, record: ConfigRecord) -> Changes:
    place = (record.resource_type, record.resource_name)
    values = _changed(image.configs.get(place, {}), record.name, record.value)
    kept = image.configs.set(place, values) if values else image.configs.discard(place)
    return {"configs": kept}


def _changed(values: Mapping[str, T], name: str, value: T | None) -> dict[str, T]:
    """A sorted copy, so that configs come out in one order whoever set them when."""
    changed = {**values}
    if value is None:
        changed.pop(name, None)
    else:
        changed[name] = value
    return dict(sorted(changed.items()))


def feature_level(image: MetadataImage, record: FeatureLevelRecord) -> Changes:
    if record.feature_level == 0:
        return {"features": image.features.discard(record.name)}
    return {"features": image.features.set(record.name, record.feature_level)}


def producer_ids(image: MetadataImage, record: ProducerIdsRecord) -> Changes:
    return {"next_producer_id": record.next_producer_id}


def client_quota(image: MetadataImage, record: ClientQuotaRecord) -> Changes:
    entity = tuple(
        (part.entity_type, part.entity_name)
        for part in sorted(record.entity, key=lambda part: part.entity_type)
    )
    # None, the default of a type, sorts before every name.
    place = tuple(
        text for kind, name in entity for text in (kind, "" if name is None else f"={name}")
    )
    _, values = image.quotas.get(place, (entity, {}))
    kept = _changed(values, record.key, None if record.remove else record.value)
    quotas = image.quotas.set(place, (entity, kept)) if kept else image.quotas.discard(place)
    return {"quotas": quotas}


def access_control_entry(image: MetadataImage, record: AccessControlEntryRecord) -> Changes:
    return {"acls": image.acls.set(record.id, record)}


def remove_access_control_entry(
    image: MetadataImage, record: RemoveAccessControlEntryRecord
) -> Changes:
    return {"acls": image.acls.discard(record.id)}


def scram_credential(image: MetadataImage, record: UserScramCredentialRecord) -> Changes:
    place = (record.mechanism, record.name)
    return {"scram_credentials": image.scram_credentials.set(place, record)}


def remove_scram_credential(
    image: MetadataImage, record: RemoveUserScramCredentialRecord
) -> Changes:
    place = (record.mechanism, record.name)
    return {"scram_credentials": image.scram_credentials.discard(place)}


def delegation_token(image: MetadataImage, record: DelegationTokenRecord) -> Changes:
    return {"delegation_tokens": image.delegation_tokens.set(record.token_id, record)}


def remove_delegation_token(image: MetadataImage, record: RemoveDelegationTokenRecord) -> Changes:
    return {"delegation_tokens": image.delegation_tokens.discard(record.token_id)}


def begin_transaction(image: MetadataImage, record: BeginTransactionRecord) -> Changes:
    if image.before_transaction is not None:
        raise UnreplayableRecord("a transaction begins inside another")
    return {"before_transaction": image}


def end_transaction(image: MetadataImage, record: Message) -> Changes:
    if image.before_transaction is None:
        raise UnreplayableRecord("a transaction ends that has not begun")
    return {"before_transaction": None}


def nothing(image: MetadataImage, record: Message) -> Changes:
    return {}


REPLAYS: dict[type[Message], Callable[[MetadataImage, Any], Changes]] = {
    RegisterBrokerRecord: register_broker,
    UnregisterBrokerRecord: unregister_broker,
    FenceBrokerRecord: fence_broker,
    UnfenceBrokerRecord: unfence_broker,
    BrokerRegistrationChangeRecord: change_registration,
    RegisterControllerRecord: register_controller,
    TopicRecord: delta_topics.topic,
    RemoveTopicRecord: delta_topics.remove_topic,
    PartitionRecord: delta_topics.partition,
    PartitionChangeRecord: delta_topics.partition_change,
    ClearElrRecord: delta_topics.clear_elr,
    ConfigRecord: config,
    FeatureLevelRecord: feature_level,
    ProducerIdsRecord: producer_ids,
    ClientQuotaRecord: client_quota,
    AccessControlEntryRecord: access_control_entry,
    RemoveAccessControlEntryRecord: remove_access_control_entry,
    UserScramCredentialRecord: scram_credential,
    RemoveUserScramCredentialRecord: remove_scram_credential,
    DelegationTokenRecord: delegation_token,
    RemoveDelegationTokenRecord: remove_delegation_token,
    BeginTransactionRecord: begin_transaction,
    EndTransactionRecord: end_transaction,
    AbortTransactionRecord: end_transaction,
    NoOpRecord: nothing,
    ZkMigrationStateRecord: nothing,
}
