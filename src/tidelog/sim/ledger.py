"""What is in every replica of a log, batch by batch, and what of it is committed.

The truth that invariants are checked against: read from the simulated disks (disk_logs.py), not
asked of the nodes. Also of machines that are dead: their disks and page caches still hold what they
held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from tidelog.sim.violation import Violation
from tidelog.types import Offset
from tidelog.wire.batch import RecordBatch

SEQUENCE_MASK = (1 << 31) - 1
"""Behind the highest sequence comes 0."""
NO_PRODUCER = (-1, -1, -1)
EVERY_EPOCH = 1 << 31
"""Later than every leader's."""


class Entry(NamedTuple):
    """A batch in a log."""

    base_offset: Offset
    end_offset: Offset
    epoch: int
    crc: int
    """Of all that its leader does not write into it."""
    segment: Offset
    position: int
    end_position: int
    """Where it begins and ends in that segment's file."""
    producer: tuple[int, int, int] = NO_PRODUCER
    """Its id and epoch, and the first sequence."""

    @property
    def key(self) -> tuple[Offset, int]:
        """Two batches that share it must be the same."""
        return self.base_offset, self.epoch

    def is_same_as(self, other: Entry) -> bool:
        return self[:4] == other[:4]


def entry(batch: RecordBatch, segment: Offset = -1) -> Entry:
    return Entry(
        batch.base_offset,
        batch.next_offset,
        batch.partition_leader_epoch,
        batch.crc,
        segment,
        batch.position,
        batch.end_position,
    )


class ReplicaLog:
    """One replica's batches, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start_offset: Offset = 0
        """What was below is deleted, and for the metadata log in a snapshot."""
        self._bases: list[Offset] = []

    @property
    def end_offset(self) -> Offset:
        return self.entries[-1].end_offset if self.entries else 0

    def append(self, added: Entry) -> None:
        self.entries.append(added)
        self._bases.append(added.base_offset)

    def truncate(self, end_offset: Offset) -> list[Entry]:
        """What lies at end_offset and above, which is no longer there."""
        kept = len(self.entries)
        while kept and self.entries[kept - 1].end_offset > end_offset:
            kept -= 1
        cut = self.entries[kept:]
        del self.entries[kept:], self._bases[kept:]
        return cut

    def forget_below(self, start_offset: Offset) -> None:
        """Deleted, or a snapshot took its place."""
        self.start_offset = start_offset
        gone = 0
        while gone < len(self.entries) and self.entries[gone].end_offset <= start_offset:
            gone += 1
        del self.entries[:gone], self._bases[:gone]

    def at(self, offset: Offset) -> Entry | None:
        """The batch that holds an offset."""
        index = bisect_right(self._bases, offset) - 1
        if index >= 0 and offset < self.entries[index].end_offset:
            return self.entries[index]
        return None

    def holds(self, wanted: Entry) -> bool:
        if wanted.end_offset <= self.start_offset:
            return True
        found = self.at(wanted.base_offset)
        return found is not None and found.is_same_as(wanted)

    def between(self, start_offset: Offset, end_offset: Offset) -> list[Entry]:
        """Whole batches in [start_offset, end_offset)."""
        return self.entries[
            bisect_left(self._bases, start_offset) : bisect_left(self._bases, end_offset)
        ]


class Excused(NamedTuple):
    """A committed batch that nobody need find any more."""

    entry: Entry
    reason: str


class Ledger:
    """All replicas of one log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.committed = ReplicaLog()
        """What some leader has shown to readers as committed, but what was lost for a reason
        that excuses it."""
        self.high_watermark: Offset = 0
        """The highest that any leader has shown."""
        self.start_offset: Offset = 0
        """What leaders have deleted lies below, but for what an unclean one did not know."""
        self.start_offset_max: Offset = 0
        """The highest that any leader has deleted up to."""
        self.replicas: dict[str, ReplicaLog] = {}
        """By the machine's name."""
        self.excused: dict[tuple[Offset, int], Excused] = {}
        """Committed batches that are gone."""
        self._shown: dict[int, Offset] = {}
        """By leader epoch, the highest high watermark that its leader has shown, as far as it was
        not lost."""
        self._counted: dict[str, Offset] = {}
        """The same by machine that was in sync then."""
        self._known: dict[tuple[Offset, int], tuple[Entry, tuple[Offset, int] | None]] = {}
        """Every batch there ever was, with the one before it."""

    def replica(self, machine: str) -> ReplicaLog:
        found = self.replicas.get(machine)
        if found is None:
            found = self.replicas[machine] = ReplicaLog()
        return found

    def appended(self, machine: str, added: Entry) -> None:
        """Log matching: two batches of one offset and epoch are the same batch, and what is
        before them is the same as well."""
        replica = self.replica(machine)
        last = replica.entries[-1] if replica.entries else None
        if last is not None and last.end_offset <= self.start_offset_max:
            # Deleted by a leader, and back after a crash, because it was not durable that the log
            # starts later (Kafka writes that once a minute): it may be of another history.
            last = None
        before = None if last is None else last.key
        known = self._known.setdefault(added.key, (added, before))
        if known[0] is added:
            self._check_sequence(replica, added)
        if not known[0].is_same_as(added):
            raise Violation(
                "log matching",
                f"{self.name} on {machine}: two batches at offset {added.base_offset} of epoch"
                f" {added.epoch} differ: {known[0][:4]}, {added[:4]}",
            )
        if before is not None and known[1] is None:
            self._known[added.key] = (known[0], before)
        elif before is not None and before != known[1]:
            raise Violation(
                "log matching",
                f"{self.name} on {machine}: before the batch at {added.base_offset} of epoch"
                f" {added.epoch} comes {before}, elsewhere {known[1]}",
            )
        replica.append(added)

    def _check_sequence(self, replica: ReplicaLog, added: Entry) -> None:
        """An idempotent producer's batches follow each other, wherever the last one is there to
        compare with: a gap would be a lost batch whose retry comes too late."""
        producer_id, producer_epoch, sequence = added.producer
        if producer_id < 0 or sequence < 0:
            return
        for last in reversed(replica.entries):
            if last.producer[0] == producer_id:
                count = last.end_offset - last.base_offset
                is_same = last.producer[1] == producer_epoch
                wanted = (last.producer[2] + count) & SEQUENCE_MASK if is_same else 0
                if sequence != wanted:
                    raise Violation(
                        "a producer's sequences have no gap",
                        f"{self.name}: {added} follows {last}, its sequence is not {wanted}",
                    )
                return

    def truncated(
        self, machine: str, end_offset: Offset, leader_epoch: int = EVERY_EPOCH
    ) -> list[Entry]:
        """Nobody gives up what is committed, unless its loss is excused. Who follows in a leader
        epoch, and has not heard of a later one, knows nothing of what that commits without it: its
        leader may lack records of earlier epochs which the next one has."""
        cut = self.replica(machine).truncate(end_offset)
        shown = max((end for one, end in self._shown.items() if one <= leader_epoch), default=0)
        shown = max(shown, self._counted.get(machine, 0))
        for gone in cut:
            if gone.base_offset >= shown or gone.base_offset < self.start_offset:
                continue
            if self.is_committed(gone):
                raise Violation(
                    "committed records stay",
                    f"{self.name} on {machine} was truncated to {end_offset}, below the high"
                    f" watermark {self.high_watermark}: {gone[:4]}",
                )
        return cut

    def deleted(self, start_offset: Offset) -> None:
        """By a leader."""
        self.start_offset = max(self.start_offset, start_offset)
        self.start_offset_max = max(self.start_offset_max, start_offset)

    def is_committed(self, one: Entry) -> bool:
        return one.key not in self.excused and self.committed.holds(one)

    def commit(self, machine: str, high_watermark: Offset, leader_epoch: int = 0) -> list[Entry]:
        """A leader shows what its own replica has below a high watermark; returns what is
        newly committed by that."""
        self._shown[leader_epoch] = max(high_watermark, self._shown.get(leader_epoch, 0))
        if high_watermark <= self.high_watermark:
            return []
        replica = self.replica(machine)
        added = replica.between(self.committed.end_offset, high_watermark)
        for one in added:
            self.committed.append(one)
        self.high_watermark = high_watermark
        return added

    def counts(self, machine: str, high_watermark: Offset) -> None:
        """It was in sync when a leader showed that."""
        self.check_below(machine, high_watermark, "the ISR has what is committed")
        self._counted[machine] = max(high_watermark, self._counted.get(machine, 0))

    def check_below(self, machine: str, high_watermark: Offset, what: str) -> None:
        """A replica has what is committed, below an offset. By log matching it is enough to
        look at the last batch."""
        replica, theirs = self.replica(machine), self.committed.at(high_watermark - 1)
        if theirs is None or theirs.key in self.excused or high_watermark <= self.start_offset:
            return
        if not replica.holds(theirs):
            ours = replica.at(high_watermark - 1)
            raise Violation(
                what,
                f"{self.name}: {machine} has {ours and ours[:4]} where {theirs[:4]} is committed"
                f" (below {high_watermark})",
            )

    def lost(self, machine: str, left: ReplicaLog, reason: str) -> list[Entry]:
        """A fault left a machine with less; what nobody holds any more is excused."""
        before = self.replicas.get(machine)
        self.replicas[machine] = left
        self._counted.pop(machine, None)
        gone = []
        for one in () if before is None else before.entries:
            if left.holds(one) or not self.is_committed(one):
                continue
            if not any(other.holds(one) for other in self.replicas.values()):
                self.excused[one.key] = Excused(one, reason)
                gone.append(one)
        return gone

    def excuse(self, machine: str, end_offset: Offset, reason: str) -> None:
        """What a replica shows below an offset nobody need find any more, if it is not committed
        anyway."""
        for one in self.replica(machine).between(0, end_offset):
            if not self.committed.holds(one):
                self.excused.setdefault(one.key, Excused(one, reason))

    def lead(self, machine: str, *, is_unclean: bool) -> list[Entry]:
        """A leader begins: it must have all that is committed. What it lacks is lost; returns
        what an unclean election has cost."""
        replica, cost = self.replica(machine), []
        if is_unclean and replica.end_offset < self.start_offset:
            self.start_offset = replica.start_offset  # it has not heard of the deletion
        while self.committed.entries and self.committed.entries[-1].base_offset >= (
            self.start_offset
        ):
            last = self.committed.entries[-1]
            if replica.holds(last):
                break
            if last.key not in self.excused:
                if not is_unclean:
                    raise Violation(
                        "leader completeness",
                        f"{self.name}: {machine} leads without {last[:4]}, which is committed",
                    )
                self.excused[last.key] = Excused(last, "an unclean election")
                cost.append(last)
            self.committed.truncate(last.base_offset)
        self.high_watermark = min(self.high_watermark, self.committed.end_offset)
        for epoch, shown in self._shown.items():
            self._shown[epoch] = min(shown, self.high_watermark)
        for member, shown in self._counted.items():
            self._counted[member] = min(shown, self.high_watermark)
        return cost
