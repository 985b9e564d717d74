"""Which elections may have cost records, to be logged and counted by whoever has them committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidelog.metadata.image import MetadataImage, PartitionState
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.wire.declare import Message


class UncleanElection(NamedTuple):
    """A leader that was neither in the ISR nor in the ELR."""

    topic: str
    partition: int
    leader: int
    before: PartitionState

    @property
    def is_of_the_last_leader(self) -> bool:
        """It had all that was committed, and nobody has led since: but it stopped uncleanly, so
        that nobody knows whether its disk kept what was not flushed."""
        return self._held == (self.leader,)

    @property
    def _held(self) -> tuple[int, ...]:
        before = self.before
        return (*before.isr, *before.eligible_leader_replicas) or before.last_known_elr

    def __str__(self) -> str:
        """All that a controller can say: it knows epochs, not offsets. Which offsets are lost the
        new leader says (where its log ends) and the old one, when it cuts off what was beyond."""
        before = self.before
        if self.is_of_the_last_leader:
            return (
                f"broker {self.leader} leads {self.topic}-{self.partition} again, in leader epoch"
                f" {before.leader_epoch + 1}: it led it last, and did not stop cleanly. Of the"
                f" records up to leader epoch {before.leader_epoch} it lacks at most what its disk"
                " has lost"
            )
        return (
            f"unclean election: broker {self.leader} leads {self.topic}-{self.partition} in leader"
            f" epoch {before.leader_epoch + 1}. What it lacks of the records up to leader epoch"
            f" {before.leader_epoch} is lost; {describe(self._held)} had them last"
        )


def describe(brokers: tuple[int, ...]) -> str:
    if not brokers:
        return "nobody known"
    return f"broker{'s' * (len(brokers) > 1)} {', '.join(map(str, brokers))}"


def unclean_elections(
    image: MetadataImage, records: Iterable[Message]
) -> Iterator[UncleanElection]:
    """Among records that were decided on this image."""
    for record in records:
        if not isinstance(record, PartitionChangeRecord) or record.leader < 0:
            continue
        topic = image.topic_by_id(record.topic_id)
        before = None if topic is None else topic.partitions.get(record.partition_id)
        if topic is None or before is None:
            continue
        if record.leader not in before.isr and record.leader not in before.eligible_leader_replicas:
            yield UncleanElection(topic.name, record.partition_id, record.leader, before)
