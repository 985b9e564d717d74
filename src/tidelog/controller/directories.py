"""Log directories, as brokers report them: where replicas lie, and which directories failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.config.broker import BrokerConfig
from tidelog.controller.partitions import PartitionChanges
from tidelog.metadata.image import MetadataImage, TopicPartition
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.types import Uuid
from tidelog.wire.declare import Message

DIRECTORIES_SINCE = 17
"""The metadata.version (3.7-IV2) that knows in which directory a replica lies."""

CORDONS_SINCE = 30
"""4.3-IV0."""


def assign_directories(
    image: MetadataImage, broker_id: int, assigned: Mapping[TopicPartition, Uuid]
) -> list[Message]:
    """A broker with several directories says where it has put its replicas."""
    if image.metadata_version < DIRECTORIES_SINCE:
        return []
    records: list[Message] = []
    for place, directory in assigned.items():
        state = image.partition_by_id(place.topic_id, place.partition)
        if state is None or broker_id not in state.replicas:
            continue  # deleted or moved meanwhile
        if state.directory(broker_id) != directory:
            directories = tuple(
                directory if replica == broker_id else state.directory(replica)
                for replica in state.replicas
            )
            records.append(
                PartitionChangeRecord(
                    topic_id=place.topic_id, partition_id=place.partition, directories=directories
                )
            )
    return records


def cordon_directories(
    image: MetadataImage, broker_id: int, cordoned: Iterable[Uuid]
) -> list[Message]:
    """Which of a broker's directories get no new replicas (KIP-1066)."""
    broker, wanted = image.brokers[broker_id], tuple(sorted(cordoned))
    known = image.metadata_version >= CORDONS_SINCE
    if not known or wanted == tuple(sorted(broker.cordoned_log_dirs or ())):
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=wanted
    )
    return [change]


def directories_offline(
    image: MetadataImage, broker_id: int, online: Iterable[Uuid], config: BrokerConfig
) -> list[Message]:
    """A broker has these directories left: what lies in others is not in sync any more."""
    broker, left = image.brokers[broker_id], tuple(sorted(online))
    gone = set(broker.log_dirs) - set(left)
    if not gone:
        return []
    changes = PartitionChanges(image, config, removed=broker_id)
    places = (
        (place, state)
        for place, state in image.partitions_of(broker_id)
        if state.directory(broker_id) in gone
    )
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.broker_epoch, log_dirs=left
    )
    return [*changes.records(places), change]
