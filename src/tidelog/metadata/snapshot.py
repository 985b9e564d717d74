"""An image as records, in the order of Kafka's snapshots, and the file that holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tidelog.metadata.batches import control_batch, walk_metadata
from tidelog.metadata.frame import METADATA_VERSION_LATEST, at_level, encode_record
from tidelog.metadata.image import Broker, Controller, MetadataImage, PartitionState, Topic
from tidelog.metadata.records.brokers import RegisterBrokerRecord, RegisterControllerRecord
from tidelog.metadata.records.cluster import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from tidelog.metadata.records.security import ClientQuotaRecord, EntityData
from tidelog.metadata.records.topics import PartitionRecord, TopicRecord
from tidelog.slices import Slices, finish
from tidelog.types import Offset, Uuid
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.messages.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

BATCH_RECORDS_MAX = 1024
"""A snapshot of many partitions is cut into batches of this many."""
RECORD_COST = 20
BATCH_COST = 300
"""Microseconds (slices.py) to encode a record, and to write a full batch."""

METADATA_VERSION = "metadata.version"


def records_of(image: MetadataImage) -> Iterator[Message]:
    """What makes an equal image when it is replayed from nothing."""
    yield from features(image)
    yield from (broker_record(broker) for broker in image.brokers.values())
    yield from (controller_record(controller) for controller in image.controllers.values())
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        yield from partition_records(topic)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    for entity, limits in image.quotas.values():
        parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, limit in limits.items():
            yield ClientQuotaRecord(entity=parts, key=key, value=limit, remove=False)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    yield from image.scram_credentials.values()
    yield from image.delegation_tokens.values()


def features(image: MetadataImage) -> Iterator[Message]:
    """metadata.version comes first: it says how to read the rest."""
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    return (FeatureLevelRecord(name=name, feature_level=image.features[name]) for name in names)


def broker_record(broker: Broker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=broker.end_points,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs,
    )


def controller_record(controller: Controller) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=controller.end_points,
        features=controller.features,
    )


def partition_records(topic: Topic) -> Iterator[PartitionRecord]:
    return (
        partition_record(topic.topic_id, number, state)
        for number, state in topic.partitions.items()
    )


def partition_record(topic_id: Uuid, number: int, state: PartitionState) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=state.replicas,
        isr=state.isr,
        removing_replicas=state.removing_replicas,
        adding_replicas=state.adding_replicas,
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=state.directories,
        eligible_leader_replicas=state.eligible_leader_replicas or None,
        last_known_elr=state.last_known_elr or None,
    )


def snapshot_content(
    records: Iterable[Message],
    *,
    epoch: int,
    last_timestamp_ms: int,
    written_at_ms: int,
    quorum_records: Sequence[Message] = (),
) -> bytes:
    """A snapshot's file at once; see write_snapshot."""
    content = bytearray()
    slices = write_snapshot(
        records,
        content.extend,
        epoch=epoch,
        last_timestamp_ms=last_timestamp_ms,
        written_at_ms=written_at_ms,
        quorum_records=quorum_records,
    )
    finish(slices)
    return bytes(content)


def write_snapshot(
    records: Iterable[Message],
    write: Callable[[bytearray], object],
    *,
    epoch: int,
    last_timestamp_ms: int,
    written_at_ms: int,
    quorum_records: Sequence[Message] = (),
    metadata_version: int = METADATA_VERSION_LATEST,
) -> Slices[None]:
    """A snapshot's file: header, [KRaft version and voters,] records, footer; offsets from 0.

    The first timestamp is what the header says of the log, the second that of the batches.
    """
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    write(
        control_batch(
            [header, *quorum_records], base_offset=0, leader_epoch=epoch, timestamp_ms=written_at_ms
        )
    )
    offset = 1 + len(quorum_records)
    every = iter(records)
    while True:
        builder, count = BatchBuilder(), 0
        for record in islice(every, BATCH_RECORDS_MAX):
            value = encode_record(at_level(record, metadata_version), metadata_version)
            builder.append(None, value, timestamp=written_at_ms)
            count += 1
            yield RECORD_COST
        if not count:
            break
        write(builder.build(base_offset=offset, partition_leader_epoch=epoch))
        offset += count
        yield BATCH_COST
    footer = [SnapshotFooterRecord(version=0)]
    write(control_batch(footer, base_offset=offset, leader_epoch=epoch, timestamp_ms=written_at_ms))


def snapshot_name(end_offset: int, epoch: int) -> str:
    """Of the file with everything below the end offset."""
    return f"{end_offset:020}-{epoch:010}.checkpoint"


class SnapshotId(NamedTuple):
    """Which one: all records below an offset, the last of them of this epoch."""

    end_offset: Offset
    epoch: int


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """The inverse; None for a file that is no snapshot."""
    stem, dot, suffix = name.partition(".")
    offset, _, epoch = stem.partition("-")
    is_one = dot and suffix == "checkpoint" and len(offset) == 20 and len(epoch) == 10
    if not is_one or not (offset + epoch).isdecimal():
        return None
    return SnapshotId(int(offset), int(epoch))


class Snapshot(NamedTuple):
    """What a snapshot's file says."""

    id: SnapshotId
    records: list[Message]
    quorum_records: list[Message]
    """KRaft version and voters of a dynamic quorum."""


def read_snapshot(content: bytes, snapshot_id: SnapshotId) -> Snapshot:
    """DecodeError where it is damaged or was not written to its end."""
    records = [logged.record for logged in walk_metadata(content)]
    if not records or not isinstance(records[-1], SnapshotFooterRecord):
        raise DecodeError("the snapshot has no footer: it was not written to its end")
    quorum = (KRaftVersionRecord, VotersRecord)
    control = (*quorum, SnapshotHeaderRecord, SnapshotFooterRecord)
    return Snapshot(
        snapshot_id,
        [record for record in records if not isinstance(record, control)],
        [record for record in records if isinstance(record, quorum)],
    )
