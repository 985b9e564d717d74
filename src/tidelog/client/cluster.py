"""What a client knows of its cluster: brokers, controller, and who leads which partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.client.errors import Address, BrokerError, ClientError
from tidelog.client.settings import ClientSettings
from tidelog.errors import ErrorCode
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_LEADER = -1


class TopicPartition(NamedTuple):
    """A topic's partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Leader(NamedTuple):
    """Who leads a partition, since which epoch."""

    node_id: int
    leader_epoch: int


class KnownTopic(NamedTuple):
    """A topic as Metadata last described it."""

    topic_id: Uuid
    leaders: dict[int, Leader]
    learned_ms: int


class Cluster:
    """The client's memory, filled by Metadata answers. `now_ms` is a monotonic clock, `jitter`
    gives numbers of [0, 1): backoffs of many clients shall not fall together."""

    def __init__(
        self, settings: ClientSettings, now_ms: Callable[[], int], jitter: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self.jitter = jitter
        self.on_retry: Callable[[ClientError], None] = lambda error: None
        """Told why, each time that something is tried again."""
        self.cluster_id: str | None = None
        self.controller_id = NO_LEADER
        self.brokers: dict[int, Address] = {}
        self.topics: dict[str, KnownTopic] = {}
        self._preferred: Address | None = None
        self._names: dict[Uuid, str] = {}

    def addresses(self) -> list[Address]:
        """Whom to ask what any broker can answer: who answered last, then brokers, then the
        bootstrap servers, which are all that is left when every broker moved."""
        first = [] if self._preferred is None else [self._preferred]
        every = (*first, *self.brokers.values(), *self.settings.bootstrap_servers)
        return list(dict.fromkeys(every))

    def answered(self, address: Address) -> None:
        """This broker lives."""
        self._preferred = address

    def failed(self, address: Address) -> None:
        """This broker does not answer."""
        if self._preferred == address:
            self._preferred = None

    def partition_count(self, topic: str) -> int:
        """Of a topic that is known."""
        return len(self.topics[topic].leaders)

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The inverse of KnownTopic.topic_id."""
        return self._names.get(topic_id)

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        """The leader, if it is known and not too long ago."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.learned_ms + self.settings.metadata_max_age_ms <= self.now_ms():
            return None
        leader = topic.leaders.get(partition.partition)
        return leader if leader is not None and leader.node_id in self.brokers else None

    def forget(self, topics: Iterable[str]) -> None:
        """Ask anew who leads these topics' partitions before using them again."""
        for name in topics:
            known = self.topics.get(name)
            if known is not None:
                self.topics[name] = known._replace(
                    learned_ms=self.now_ms() - self.settings.metadata_max_age_ms
                )

    def learn(self, answer: MetadataResponse) -> None:
        """Take over what a broker says."""
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        self.brokers = {b.node_id: Address(b.host, b.port) for b in answer.brokers}
        for topic in answer.topics:
            if topic.name is None:
                continue
            if topic.error_code == ErrorCode.NONE:
                self.topics[topic.name] = self._known(topic, self.topics.get(topic.name))
                self._names[topic.topic_id] = topic.name
            elif topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                gone = self.topics.pop(topic.name, None)
                if gone is not None:
                    self._names.pop(gone.topic_id, None)

    def _known(self, topic: MetadataResponseTopic, old: KnownTopic | None) -> KnownTopic:
        leaders = {p.partition_index: _leader(p) for p in topic.partitions}
        if old is not None and old.topic_id == topic.topic_id != ZERO_UUID:
            # A broker that lags may still name a leader that we know to be deposed.
            for index, leader in old.leaders.items():
                if index in leaders and leaders[index].leader_epoch < leader.leader_epoch:
                    leaders[index] = leader
        return KnownTopic(topic.topic_id, leaders, self.now_ms())


def _leader(partition: MetadataResponsePartition) -> Leader:
    return Leader(partition.leader_id, partition.leader_epoch)


def topic_errors(answer: MetadataResponse) -> dict[str, BrokerError]:
    """The topics of which this answer says nothing else."""
    return {
        topic.name: BrokerError(topic.error_code, about=f"topic {topic.name}")
        for topic in answer.topics
        if topic.error_code and topic.name is not None
    }
