"""What a change of a broker does to partitions: who leaves their ISRs, and who leads then."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.config.broker import BrokerConfig
from tidelog.config.definition import InvalidConfig
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.valid import Value
from tidelog.controller.effective_configs import current_config
from tidelog.controller.partition_change import Election, PartitionChange, Target
from tidelog.controller.topics import directory_of
from tidelog.metadata.image import MetadataImage, PartitionState, Topic, TopicPartition
from tidelog.wire.declare import Message

Places = Iterable[tuple[TopicPartition, PartitionState]]


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

    def records(self, places: Places) -> list[Message]:
        """The records that take the gone out of the ISRs and elect where that is needed."""
        found: list[Message] = []
        for place, state in places:
            isr = tuple(node for node in state.isr if node not in self.gone)
            change = self.change(place, state, Target(isr=isr))
            record = change.build()
            if record is not None:
                found.append(record)
        return found

    def change(
        self,
        place: TopicPartition,
        state: PartitionState,
        target: Target,
        election: Election | None = None,
    ) -> PartitionChange:
        topic = self.image.topic_by_id(place.topic_id)
        assert topic is not None, "the partition is in the image"
        if election is None:
            unclean = self.topic_value(topic.name, "unclean.leader.election.enable")
            election = Election.UNCLEAN if unclean else Election.ONLINE
        return PartitionChange(
            topic_id=place.topic_id,
            partition_id=place.partition,
            before=state,
            is_acceptable=self.acceptable(state),
            min_isr=self.min_isr(topic),
            elr_is_on=self.image.elr_is_on,
            target=target,
            election=election,
            unclean_shutdown=self.unclean_shutdown,
            directory_of=lambda broker_id: directory_of(self.image, broker_id),
        )

    def acceptable(self, state: PartitionState) -> Callable[[int], bool]:
        """Who may lead a partition: an active broker whose directory for it is online."""

        def is_acceptable(broker_id: int) -> bool:
            if broker_id in self.gone:
                return False
            broker = self.image.brokers.get(broker_id)
            if broker is None or not (broker_id == self.added or broker.is_active):
                return False
            directory = state.directory(broker_id)
            is_real = int.from_bytes(directory, "big") > 2  # not migrating, unassigned, lost
            is_lost = int.from_bytes(directory, "big") == 2
            return not is_lost and (not is_real or directory in broker.log_dirs)

        return is_acceptable

    def min_isr(self, topic: Topic) -> int:
        """The topic's min.insync.replicas, but never more than it has replicas."""
        value = self.topic_value(topic.name, "min.insync.replicas")
        assert isinstance(value, int)
        first = topic.partitions.get(0)
        return min(value, len(first.replicas)) if first is not None else value

    def topic_value(self, name: str, key: str) -> Value:
        text = self.image.topic_configs(name).get(key)
        if text is not None:
            try:
                return TOPIC_KEYS[key].parse(text)
            except InvalidConfig:
                pass  # a log from elsewhere: as if it were not set
        return self.defaults[key]


def in_isr(image: MetadataImage, broker_id: int) -> Places:
    """The partitions whose ISR has the broker."""
    return ((p, state) for p, state in image.partitions_of(broker_id) if broker_id in state.isr)


def in_isr_or_elr(image: MetadataImage, broker_id: int) -> Places:
    """The partitions that count the broker among those that hold everything."""
    return (
        (place, state)
        for place, state in image.partitions_of(broker_id)
        if broker_id in state.isr or broker_id in state.eligible_leader_replicas
    )


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(state.leader == broker_id for _, state in image.partitions_of(broker_id))
