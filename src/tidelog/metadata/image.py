"""The cluster at one offset of its metadata log. An image never changes; `delta.replay` makes the
next one, which shares all that stayed the same, so keeping an old image is how to go back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.metadata.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
)
from tidelog.metadata.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from tidelog.metadata.sorted_map import SortedMap
from tidelog.types import Offset, Uuid

NO_LEADER = -1

# Resources that have configs, by Kafka's numbers.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

# Directory ids that name no directory.
MIGRATING_DIRECTORY = Uuid(bytes(16))
UNASSIGNED_DIRECTORY = Uuid(bytes(15) + b"\x01")
LOST_DIRECTORY = Uuid(bytes(15) + b"\x02")
RESERVED_UUIDS = 100
"""Kafka keeps the first hundred for itself; no topic and no directory may have one."""

NO_CONFIGS: Mapping[str, str] = {}


class PartitionState(NamedTuple):
    """Who holds a partition, who leads it, and since when."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[Uuid, ...] = ()
    """One for each replica, in their order."""
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    """1 while a leader of an unclean election has not recovered."""

    def directory(self, broker_id: int) -> Uuid:
        """Where a replica lies on its broker, as far as the controller knows."""
        if broker_id in self.replicas and len(self.directories) == len(self.replicas):
            return self.directories[self.replicas.index(broker_id)]
        return MIGRATING_DIRECTORY

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)


class Topic(NamedTuple):
    """A topic and its partitions by number."""

    name: str
    topic_id: Uuid
    partitions: SortedMap[int, PartitionState]


class Broker(NamedTuple):
    """A broker's registration. It stays when the broker is fenced or gone."""

    broker_id: int
    incarnation_id: Uuid
    broker_epoch: int
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]
    cordoned_log_dirs: tuple[Uuid, ...] | None
    is_migrating_zk_broker: bool
    registered_at: Offset
    """Where its registration stands in the log: who has read that far knows of it."""

    @property
    def is_active(self) -> bool:
        """Whether it may lead, and may join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener_name: str) -> BrokerEndpoint | None:
        """Its address on a listener, if it has that one."""
        return next((point for point in self.end_points if point.name == listener_name), None)


class Controller(NamedTuple):
    """A controller's registration."""

    controller_id: int
    incarnation_id: Uuid
    end_points: tuple[ControllerEndpoint, ...]
    features: tuple[ControllerFeature, ...]
    zk_migration_ready: bool


class TopicPartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: Uuid
    partition: int


QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, eq=False)
class MetadataImage:
    """Everything, in sorted maps."""

    offset: Offset = -1
    """Of the last record that counts; -1 before any."""
    epoch: int = 0
    """The quorum's, of that record."""
    features: SortedMap[str, int] = field(default_factory=SortedMap)
    brokers: SortedMap[int, Broker] = field(default_factory=SortedMap)
    controllers: SortedMap[int, Controller] = field(default_factory=SortedMap)
    topics: SortedMap[str, Topic] = field(default_factory=SortedMap)
    topic_names: SortedMap[Uuid, str] = field(default_factory=SortedMap)
    partitions_by_broker: SortedMap[int, SortedMap[TopicPartition, None]] = field(
        default_factory=SortedMap
    )
    leaderless: SortedMap[TopicPartition, None] = field(default_factory=SortedMap)
    configs: SortedMap[tuple[int, str], Mapping[str, str]] = field(default_factory=SortedMap)
    next_producer_id: int = 0
    quotas: SortedMap[tuple[str, ...], tuple[QuotaEntity, Mapping[str, float]]] = field(
        default_factory=SortedMap
    )
    acls: SortedMap[Uuid, AccessControlEntryRecord] = field(default_factory=SortedMap)
    scram_credentials: SortedMap[tuple[int, str], UserScramCredentialRecord] = field(
        default_factory=SortedMap
    )
    delegation_tokens: SortedMap[str, DelegationTokenRecord] = field(default_factory=SortedMap)
    before_transaction: MetadataImage | None = None
    """While a transaction of records is open: what there was before it."""

    @staticmethod
    def empty() -> MetadataImage:
        """Before the first record."""
        return MetadataImage()

    @property
    def shown(self) -> MetadataImage:
        """What may be acted upon: nothing of a transaction that may still be aborted."""
        return self if self.before_transaction is None else self.before_transaction

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, name: str, number: int) -> PartitionState | None:
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(number)

    def partition_by_id(self, topic_id: Uuid, number: int) -> PartitionState | None:
        topic = self.topic_by_id(topic_id)
        return None if topic is None else topic.partitions.get(number)

    def partitions_of(self, broker_id: int) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Every partition that the broker has a replica of."""
        for place in self.partitions_by_broker.get(broker_id) or ():
            state = self.partition_by_id(place.topic_id, place.partition)
            assert state is not None, "the index names only what is there"
            yield place, state

    def leaderless_partitions(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Every partition that nobody leads."""
        for place in self.leaderless:
            state = self.partition_by_id(place.topic_id, place.partition)
            assert state is not None, "the index names only what is there"
            yield place, state

    def broker_epoch(self, broker_id: int) -> int:
        """-1 if nobody is registered."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch

    def alive_brokers(self) -> Iterator[Broker]:
        """Those that clients may be told of: not fenced."""
        return (broker for broker in self.brokers.values() if not broker.fenced)

    def is_alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def is_online(self, broker_id: int, state: PartitionState) -> bool:
        """Whether a replica can be had: its broker is alive, and so is its directory there."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        directory = state.directory(broker_id)
        if int.from_bytes(directory, "big") < RESERVED_UUIDS or not broker.log_dirs:
            return directory != LOST_DIRECTORY
        return directory in broker.log_dirs

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set on a resource; empty if nothing was."""
        return self.configs.get((resource_type, name), NO_CONFIGS)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        return self.configs_of(TOPIC_RESOURCE, name)

    def broker_configs(self, broker_id: int) -> Mapping[str, str]:
        """Set on this broker alone."""
        return self.configs_of(BROKER_RESOURCE, str(broker_id))

    def cluster_configs(self) -> Mapping[str, str]:
        """Set on all brokers together."""
        return self.configs_of(BROKER_RESOURCE, "")

    def feature_level(self, name: str) -> int:
        """0 where the feature is off."""
        return self.features.get(name, 0)

    @property
    def metadata_version(self) -> int:
        return self.feature_level("metadata.version")

    @property
    def elr_is_on(self) -> bool:
        """Whether eligible leader replicas are kept (KIP-966)."""
        return self.feature_level("eligible.leader.replicas.version") > 0
