"""Where the replicas of new partitions go: Kafka's striped placement over racks and brokers.

Leaders and replicas spread evenly over racks, then over the brokers of a rack; fenced brokers
only get replicas that no other is left for, and never the first; those that are about to stop get
none. Chance is injected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from tidelog.controller.decision import Refused
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage

if TYPE_CHECKING:
    from tidelog.env import Rng

T = TypeVar("T")

Members = Mapping[str, tuple[list[int], list[int]]]
"""Of each rack the brokers that are not fenced, and those that are; brokers without a rack stand
in one together."""


class Ring:
    """Brokers in a fixed order, dealt from a moving start; epochs make every broker come once
    for each partition."""

    def __init__(self, brokers: list[int]) -> None:
        self.brokers = sorted(brokers)
        self._offset = 0
        self._index = 0
        self._epoch = 0

    def initialize(self, rng: Rng) -> None:
        """A random start, so that small topics do not all begin at the same broker."""
        if self.brokers:
            self._offset = rng.randrange(len(self.brokers))

    def shuffle(self, rng: Rng) -> None:
        shuffle(self.brokers, rng)

    def next(self, epoch: int) -> int | None:
        """The next broker of this partition; None when each was dealt."""
        if not self.brokers:
            return None
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._index >= len(self.brokers):
            return None
        broker = self.brokers[(self._index + self._offset) % len(self.brokers)]
        self._index += 1
        return broker


class Rack:
    """A rack's brokers: those that can lead first."""

    def __init__(self, unfenced: list[int], fenced: list[int]) -> None:
        self.unfenced = Ring(unfenced)
        self.fenced = Ring(fenced)

    def next(self, epoch: int) -> int | None:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker


class Racks:
    """All racks, by name."""

    def __init__(self, members: Members, rng: Rng) -> None:
        self.racks = [Rack(*members[name]) for name in sorted(members)]
        self.total = sum(len(one) + len(two) for one, two in members.values())
        self.unfenced = sum(len(one) for one, _ in members.values())
        self._rng = rng
        self._epoch = 0
        for rack in self.racks:
            rack.unfenced.initialize(rng)
            rack.fenced.initialize(rng)
        self._offset = rng.randrange(len(self.racks)) if self.racks else 0

    def place(self, replication_factor: int) -> list[int]:
        """The brokers of the next partition; the first is to lead."""
        if self._epoch == self.unfenced and self.unfenced > 1:
            # Every broker has led once: deal anew, or the same brokers would stay neighbours.
            self._shuffle()
        if self._offset == len(self.racks):
            self._offset = 0
        self._epoch += 1
        placed: list[int] = []
        index = self._offset
        leader_rack = -1
        # The leader comes from the first rack that has a broker for it.
        for step in range(len(self.racks)):
            rack = (index + step) % len(self.racks)
            leader = self.racks[rack].unfenced.next(self._epoch)
            if leader is not None:
                placed.append(leader)
                leader_rack = rack
                break
        assert placed, "somebody is not fenced"
        first_round = True
        while len(placed) < replication_factor:
            for step in range(len(self.racks)):
                rack = (index + step) % len(self.racks)
                if first_round and rack == leader_rack:
                    continue  # it has given the leader already
                broker = self.racks[rack].next(self._epoch)
                if broker is not None:
                    placed.append(broker)
                if len(placed) == replication_factor:
                    break
            first_round = False
        self._offset += 1
        return placed

    def _shuffle(self) -> None:
        shuffle(self.racks, self._rng)
        for rack in self.racks:
            rack.unfenced.shuffle(self._rng)
            rack.fenced.shuffle(self._rng)
        self._epoch = 0
        self._offset = 0


def shuffle(items: list[T], rng: Rng) -> None:
    """Fisher and Yates."""
    for last in range(len(items) - 1, 0, -1):
        other = rng.randrange(last + 1)
        items[last], items[other] = items[other], items[last]


def members_of(image: MetadataImage) -> Members:
    """The brokers that may have new replicas."""
    members: dict[str, tuple[list[int], list[int]]] = {}
    for broker in image.brokers.values():
        if broker.log_dirs and set(broker.log_dirs) <= set(broker.cordoned_log_dirs or ()):
            continue  # every directory is closed to new replicas
        if broker.in_controlled_shutdown and not broker.fenced:
            continue  # it goes, but may come back: once it is fenced it counts again
        unfenced, fenced = members.setdefault(broker.rack or "", ([], []))
        (fenced if broker.fenced else unfenced).append(broker.broker_id)
    return members


def place_replicas(
    members: Members, partition_count: int, replication_factor: int, rng: Rng
) -> Iterator[list[int]]:
    """The replicas of each of the new partitions; Refused at once if they cannot be had."""
    racks = Racks(members, rng)
    refusal = None
    if replication_factor <= 0:
        refusal = (
            f"Invalid replication factor {replication_factor}:"
            " the replication factor must be positive."
        )
    elif racks.unfenced == 0:
        refusal = "All brokers are currently fenced."
    elif replication_factor > racks.total:
        refusal = (
            f"The target replication factor of {replication_factor} cannot be reached because"
            f" only {racks.total} broker(s) are registered or some brokers have all their log"
            " directories cordoned."
        )
    if refusal is not None:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {refusal}",
        )
    return (racks.place(replication_factor) for _ in range(partition_count))
