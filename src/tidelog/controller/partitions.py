"""What a change of a broker does to partitions: who leaves their ISRs, and who leads then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.definition import InvalidConfig
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.valid import Value
from tidelog.controller.decision import CHANGE_COST, LOOK_COST
from tidelog.controller.effective_configs import current_config
from tidelog.controller.partition_change import Election, PartitionChange, Target
from tidelog.controller.topics import directory_of
from tidelog.metadata.delta_topics import merge
from tidelog.metadata.image import (
    LOST_DIRECTORY,
    RESERVED_UUIDS,
    Broker,
    MetadataImage,
    PartitionState,
    Topic,
    TopicPartition,
)
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.slices import Slices
from tidelog.types import Uuid
from tidelog.wire.declare import Message

Places = Iterable[tuple[TopicPartition, PartitionState]]


class Rules(NamedTuple):
    """What a topic's configs say about its elections."""

    min_isr: int
    """min.insync.replicas, but never more than there are replicas."""
    may_elect_unclean: bool

    @property
    def election(self) -> Election:
        return Election.UNCLEAN if self.may_elect_unclean else Election.ONLINE


class PartitionChanges:
    """Builds changes of partitions of one image. `removed` never leads, `added` may even while
    the image still shows it fenced."""

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        *,
        removed: int = -1,
        added: int = -1,
        unclean_shutdown: int = -1,
    ) -> None:
        self.image = image
        self.defaults = current_config(image, config).topic_defaults()
        self.gone = frozenset({removed, unclean_shutdown} - {-1})
        self.added = added
        self.unclean_shutdown = frozenset({unclean_shutdown} - {-1})
        self._rules: dict[Uuid, Rules] = {}
        self._changed: dict[TopicPartition, PartitionState] = {}

    def records(
        self, places: Places, concerns: Callable[[PartitionState], bool]
    ) -> Slices[list[Message]]:
        """The records that take the gone out of the ISRs of partitions that are concerned, and
        elect where that is needed."""
        found: list[Message] = []
        for place, state in places:
            if not concerns(state):
                yield LOOK_COST
                continue
            isr = tuple(node for node in state.isr if node not in self.gone)
            record = self.build(place, state, Target(isr=isr))
            if record is not None:
                found.append(record)
            yield CHANGE_COST
        return found

    def find(self, topic_id: Uuid, partition: int) -> PartitionState | None:
        """A partition, as the changes that were replayed leave it."""
        changed = self._changed.get(TopicPartition(topic_id, partition))
        return self.image.partition_by_id(topic_id, partition) if changed is None else changed

    def build(
        self,
        place: TopicPartition,
        state: PartitionState,
        target: Target,
        election: Election | None = None,
        unclean_shutdown: frozenset[int] | None = None,
    ) -> PartitionChangeRecord | None:
        """The record of a change, None if nothing changes; the topic's configs say who may be
        elected if the caller does not."""
        rules = self.rules(place.topic_id)
        return PartitionChange(
            topic_id=place.topic_id,
            partition_id=place.partition,
            before=state,
            is_acceptable=self.acceptable(state),
            min_isr=rules.min_isr,
            elr_is_on=self.image.elr_is_on,
            target=target,
            election=rules.election if election is None else election,
            unclean_shutdown=(
                self.unclean_shutdown if unclean_shutdown is None else unclean_shutdown
            ),
            directory_of=lambda broker_id: directory_of(self.image, broker_id),
        ).build()

    def replay(self, state: PartitionState, record: PartitionChangeRecord) -> PartitionState:
        """The partition after a change, for who asks for it once more in the same request."""
        after = merge(state, record)
        self._changed[TopicPartition(record.topic_id, record.partition_id)] = after
        return after

    def acceptable(self, state: PartitionState) -> Callable[[int], bool]:
        """Who may lead a partition: an active broker whose directory for it is online."""

        def is_acceptable(broker_id: int) -> bool:
            if broker_id in self.gone:
                return False
            broker = self.image.brokers.get(broker_id)
            if broker is None or not (broker_id == self.added or broker.is_active):
                return False
            return is_online(broker, state.directory(broker_id))

        return is_acceptable

    def rules(self, topic_id: Uuid) -> Rules:
        """Of a topic that is there."""
        found = self._rules.get(topic_id)
        if found is None:
            topic = self.image.topic_by_id(topic_id)
            assert topic is not None, "the partition is in the image"
            unclean = self._value(topic.name, "unclean.leader.election.enable")
            found = self._rules[topic_id] = Rules(self._min_isr(topic), bool(unclean))
        return found

    def _min_isr(self, topic: Topic) -> int:
        value = self._value(topic.name, "min.insync.replicas")
        assert isinstance(value, int)
        first = topic.partitions.get(0)
        return min(value, len(first.replicas)) if first is not None else value

    def _value(self, name: str, key: str) -> Value:
        text = self.image.topic_configs(name).get(key)
        if text is not None:
            try:
                return TOPIC_KEYS[key].parse(text)
            except InvalidConfig:
                pass  # a log from elsewhere: as if it were not set
        return self.defaults[key]


def is_online(broker: Broker, directory: Uuid) -> bool:
    """Whether a broker has the directory; one without a name may be any of them."""
    if int.from_bytes(directory, "big") < RESERVED_UUIDS or not broker.log_dirs:
        return directory != LOST_DIRECTORY
    return directory in broker.log_dirs


def in_isr(broker_id: int) -> Callable[[PartitionState], bool]:
    """Whether a partition's ISR has the broker."""
    return lambda state: broker_id in state.isr


def in_isr_or_elr(broker_id: int) -> Callable[[PartitionState], bool]:
    """Whether a partition counts the broker among those that hold everything."""
    return lambda state: broker_id in state.isr or broker_id in state.eligible_leader_replicas


def leads_any(image: MetadataImage, broker_id: int) -> Slices[bool]:
    for _, state in image.partitions_of(broker_id):
        if state.leader == broker_id:
            return True
        yield LOOK_COST
    return False
