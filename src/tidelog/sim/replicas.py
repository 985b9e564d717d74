"""Invariants of data partitions, checked after every step for the node that made it, and there
for the partitions that the step changed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import lt

from tidelog.metadata.image import PartitionState
from tidelog.replica.partition import Partition
from tidelog.sim.counters import Counters
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.disk_logs import follow, surviving
from tidelog.sim.history import Place, Written
from tidelog.sim.ledger import Entry, Ledger, entry
from tidelog.sim.plan import host
from tidelog.sim.violation import Violation, require
from tidelog.types import Offset
from tidelog.wire.batch import RecordBatch

Mark = tuple[Offset, Offset, Offset, int, int, int, int]
"""High watermark, end, start, leader, leader epoch, partition epoch, and the latest epoch that
the log knows."""


def _is_rising(numbers: list[int]) -> bool:
    return len(numbers) < 2 or all(map(lt, numbers, islice(numbers, 1, None)))


class ReplicaInvariants:
    """All partitions of all machines."""

    def __init__(self, counters: Counters) -> None:
        self.ledgers: dict[Place, Ledger] = {}
        self._places: dict[Partition, Place] = {}
        self._counters = counters
        self._marks: dict[str, dict[Partition, Mark]] = {}
        self._leaders: dict[tuple[Place, int], str] = {}
        self._led_epochs: dict[Place, int] = {}
        """The last leader epoch that somebody has begun to lead."""
        self._unclean_epochs: dict[Place, int] = {}
        """The last leader epoch that began with an election of somebody who may lack records."""
        self._paths: dict[tuple[str, Place], str] = {}
        """Where each machine has it."""
        self._shrunken: dict[tuple[str, Place], int | None] = {}
        """Replicas that a fault left with less, by the broker epoch of the process that came after
        it; None before the controller knows that one."""
        self._isrs: dict[Partition, tuple[int, ...]] = {}
        """Of each leader, as it was after its last step."""
        self._decided: dict[Place, PartitionState] = {}
        """The controller's last word on each."""
        self.grown: dict[str, dict[Partition, None]] = {}
        """Whose logs a leader has appended to; whoever looks at them takes them away."""

    def _place(self, partition: Partition) -> Place:
        found = self._places.get(partition)
        if found is None:
            found = self._places[partition] = Place(partition.topic_id, partition.index)
        return found

    def ledger(self, partition: Partition) -> Ledger:
        place = self._place(partition)
        found = self.ledgers.get(place)
        if found is None:
            found = self.ledgers[place] = Ledger(repr(partition))
        return found

    # What happens to machines.

    def started(self, machine: str, disk: SimulatedDisk, partitions: Iterable[Partition]) -> None:
        """What recovery found is what there is."""
        self._marks[machine] = {}
        self.grown[machine] = {}
        for partition in partitions:
            self._adopt(machine, disk, partition)

    def _adopt(self, machine: str, disk: SimulatedDisk, partition: Partition) -> None:
        ledger = self.ledger(partition)
        ledger.replicas.pop(machine, None)
        place = self._place(partition)
        self._paths[machine, place] = partition.log.path
        if partition.high_watermark > ledger.high_watermark and not ledger.excused:
            raise Violation(
                "no replica begins ahead of every leader",
                f"{partition} on {machine}: {partition.high_watermark}",
            )
        follow(ledger, machine, disk, partition.log, may_be_rewritten=False)

    def lost(self, machine: str, disk: SimulatedDisk, why: str) -> None:
        """Of what a machine had, this disk is left."""
        for place, ledger in self.ledgers.items():
            if machine in ledger.replicas:
                left = surviving(disk, self._paths[machine, place])
                for _ in ledger.lost(machine, left, why):
                    self._counters.reached("a committed batch lost on every disk")
                self._shrunken[machine, place] = None

    def elected_unclean(self, place: Place, leader_epoch: int) -> None:
        self._unclean_epochs[place] = leader_epoch

    def decided(self, place: Place, state: PartitionState) -> None:
        """By the controller, whoever has heard of it."""
        self._decided[place] = state
        for partition in self._marks.get(host(state.leader), ()):
            if self._place(partition) == place and partition.is_leader:
                self._check_counted(place, partition, partition.maximal_isr)

    def _check_counted(self, place: Place, partition: Partition, members: Iterable[int]) -> None:
        """Within its epoch the leader alone adds to the ISR, and counts whom it has asked for."""
        decided = self._decided.get(place)
        if decided is not None and decided.leader_epoch == partition.leader_epoch:
            require(
                set(decided.isr) <= set(members),
                "a leader waits for all that may be elected",
                lambda: f"{partition}: the controller has {decided.isr}, its leader {members}",
            )

    def is_led(self, place: Place, leader_epoch: int) -> bool:
        """Or the leader of that epoch does not know it yet."""
        return (place, leader_epoch) in self._leaders

    def registered(self, machine: str, broker_epoch: int) -> None:
        """The controller knows that this one may have lost records."""
        for key, since in self._shrunken.items():
            if key[0] == machine and since is None:
                self._shrunken[key] = broker_epoch

    def is_uncertain(self, machine: str, place: Place) -> bool:
        """Whether it may have lost records and the controller does not know it."""
        return self._shrunken.get((machine, place), 0) is None

    def _may_lack(self, partition: Partition, member: int) -> bool:
        """Whether a member of a leader's ISR lost records and the leader cannot know it. Kafka
        takes it out of the ISR as it registers anew, and the leader reads so later (KIP-966); until
        then, or until a fetch of the new process tells (KIP-903), the leader counts on what the
        process before had. No harm is done: nobody elects it meanwhile."""
        place = self._place(partition)
        if self.is_uncertain(host(member), place):
            return True
        since = self._shrunken.get((host(member), place))
        remote = partition.followers and partition.followers.remote.get(member)
        if since is None or not remote or remote.broker_epoch is None:
            return False
        return remote.broker_epoch < since

    # A step.

    def stepped(self, machine: str, disk: SimulatedDisk, partitions: Iterable[Partition]) -> None:
        marks = self._marks[machine]
        for partition in partitions:
            log = partition.log
            now: Mark = (
                partition.high_watermark,
                log.log_end_offset,
                log.log_start_offset,
                partition.leader_id,
                partition.leader_epoch,
                partition.partition_epoch,
                log.leader_epochs.latest,
            )
            before = marks.get(partition)
            if now != before:
                marks[partition] = now
                if before is None:
                    self._adopt(machine, disk, partition)
                    before = (now[0], now[1], now[2], -1, -1, -1, now[6])
                self._changed(machine, disk, partition, before, now)

    def _changed(
        self, machine: str, disk: SimulatedDisk, partition: Partition, before: Mark, now: Mark
    ) -> None:
        # Of most steps: so without `require`, whose details are made ready each time.
        high_watermark, end, start, _, leader_epoch, partition_epoch, _ = now
        stable = partition.last_stable_offset
        if not start <= stable <= high_watermark <= end:
            raise Violation(
                "log start ≤ last stable ≤ high watermark ≤ log end",
                f"{partition} on {machine}: {start}, {stable}, {high_watermark}, {end}",
            )
        if leader_epoch < before[4] or partition_epoch < before[5]:
            raise Violation(
                "epochs never fall",
                f"{partition} on {machine}: from {before[4:6]} to {now[4:6]}",
            )
        is_new_epoch = leader_epoch != before[4]
        if is_new_epoch and partition_epoch <= before[5]:
            raise Violation(
                "the leader epoch rises with the partition epoch",
                f"{partition} on {machine}: from {before[4:6]} to {now[4:6]}",
            )
        ledger = self.ledger(partition)
        was_cut = end < before[1] or now[6] < before[6]
        if end != before[1] or start != before[2] or is_new_epoch or was_cut:
            rewritten = is_new_epoch or was_cut
            log = partition.log
            added = follow(ledger, machine, disk, log, leader_epoch, may_be_rewritten=rewritten)
            self._check_epochs(machine, partition, added)
        if partition.is_leader:
            self._check_leader(machine, partition, ledger, before, now)
        else:
            self._check_follower(machine, partition, ledger, before, now)

    def _check_epochs(self, machine: str, partition: Partition, added: list[Entry]) -> None:
        """The epochs that a log knows are those of its batches."""
        epochs, log = partition.log.leader_epochs, partition.log
        starts = epochs.start_offsets
        if (
            not _is_rising(epochs.epochs)
            or not _is_rising(starts)
            or (starts and starts[-1] > log.log_end_offset)
        ):
            raise Violation(
                "epochs rise with their offsets",
                f"{partition} on {machine}: {epochs.entries()}, end {log.log_end_offset}",
            )
        for one in added:
            known = epochs.epoch_for_offset(one.base_offset)
            if known != one.epoch and one.base_offset >= log.log_start_offset:
                raise Violation(
                    "every batch's epoch is known",
                    f"{partition} on {machine}: {one[:4]} counts as of epoch {known}",
                )

    def _check_leader(
        self, machine: str, partition: Partition, ledger: Ledger, before: Mark, now: Mark
    ) -> None:
        place = self._place(partition)
        high_watermark, leader_epoch = now[0], now[4]
        if leader_epoch != before[4]:
            other = self._leaders.setdefault((place, leader_epoch), machine)
            require(
                other == machine,
                "one leader per epoch",
                lambda: f"{partition}: {other} and {machine} lead in epoch {leader_epoch}",
            )
            self._counters.reached("a leader began an epoch")
            require(
                now[6] == leader_epoch,
                "a leader's epoch begins in its log",
                lambda: f"{partition} on {machine} leads in {leader_epoch}, its log says {now[6]}",
            )
            self._begin(machine, place, ledger, leader_epoch)
        elif high_watermark < before[0]:
            raise Violation(
                "a leader's high watermark never falls",
                f"{partition} on {machine}: from {before[0]} to {high_watermark}",
            )
        ledger.deleted(now[2])
        if now[1] > before[1]:
            self.grown[machine][partition] = None
        if high_watermark > before[0] or leader_epoch != before[4]:
            self._check_committed(machine, partition, ledger, before, now)
        self._isrs[partition] = partition.isr

    def _begin(self, machine: str, place: Place, ledger: Ledger, leader_epoch: int) -> None:
        if leader_epoch < self._led_epochs.get(place, 0):
            self._counters.reached("a leader learned too late that it led")
            return  # others lead already, and what they commit it cannot have
        # Who is elected uncleanly may be gone before it leads: who comes next is its heir.
        led_before, unclean = self._led_epochs.get(place, -1), self._unclean_epochs.get(place, -1)
        is_unclean = led_before < unclean <= leader_epoch
        self._led_epochs[place] = leader_epoch
        for _ in ledger.lead(machine, is_unclean=is_unclean):
            self._counters.reached("a committed batch lost by an unclean election")

    def _check_committed(
        self, machine: str, partition: Partition, ledger: Ledger, before: Mark, now: Mark
    ) -> None:
        """What a leader shows as committed is on all that count as in sync."""
        high_watermark, isr, members = now[0], partition.isr, partition.maximal_isr
        if high_watermark > before[0]:
            if len(isr) < partition.min_isr and now[5] == before[5] + 1:
                # The same step moved it first, because a topic's configs changed, and then took in
                # another ISR.
                isr = members = self._isrs.get(partition, ())
            # Of several changes in one step only the last is seen.
            require(
                len(isr) >= partition.min_isr or now[5] > before[5] + 1,
                "the high watermark waits for enough replicas",
                lambda: f"{partition} on {machine}: {high_watermark} with ISR {partition.isr}",
            )
        place = self._place(partition)
        self._check_counted(place, partition, members)
        if self._show(machine, place, ledger, now[4], high_watermark):
            for member in members:
                if not self._may_lack(partition, member):
                    ledger.counts(host(member), high_watermark)
        elif not self._is_overtaken(place, now[4]):
            ledger.check_below(machine, high_watermark, "replicas agree below the high watermark")

    def _show(
        self, machine: str, place: Place, ledger: Ledger, leader_epoch: int, offset: Offset
    ) -> bool:
        """The leader of an epoch shows what lies below an offset; whether any of it is new."""
        if self._is_overtaken(place, leader_epoch):
            ledger.excuse(machine, offset, "an unclean election")
            return False
        return bool(ledger.commit(machine, offset, leader_epoch))

    def _is_overtaken(self, place: Place, leader_epoch: int) -> bool:
        """Whether another one leads, without the records of this epoch's leader, and that one and
        its followers do not know it yet."""
        return self._unclean_epochs.get(place, -1) > leader_epoch

    def _check_follower(
        self, machine: str, partition: Partition, ledger: Ledger, before: Mark, now: Mark
    ) -> None:
        self._isrs.pop(partition, None)
        led = before[3] == partition.node_id or now[5] > before[5] + 1
        if led and now[0] > before[0]:
            # It led for a while in this step, with an ISR that it was told of before the last.
            place = self._place(partition)
            self._show(machine, place, ledger, now[4] - 1, now[0])
        elif now[0] < before[0]:
            self._counters.reached("a follower's high watermark fell by a truncation")
            require(
                now[0] in (now[1], now[2]),
                "a high watermark falls by truncation alone",
                lambda: f"{partition} on {machine}: from {before[0]} to {now[0]}, end {now[1]}",
            )
        elif now[0] > before[0] and self._is_overtaken(self._place(partition), now[4]):
            ledger.excuse(machine, now[0], "an unclean election")
        elif now[0] > before[0]:
            if now[0] > ledger.high_watermark:
                raise Violation(
                    "no follower is ahead of every leader",
                    f"{partition} on {machine}: {now[0]} of {ledger.high_watermark}",
                )
            ledger.check_below(machine, now[0], "replicas agree below the high watermark")
        if now[2] > max(before[2], ledger.start_offset_max):
            raise Violation(
                "no follower deletes more than a leader did",
                f"{partition} on {machine}: {now[2]} of {ledger.start_offset_max}",
            )
        if now[1] < before[1]:
            self._counters.reached("a follower truncated its log")

    # What clients see.

    def excuse(self, place: Place, offset: Offset) -> str | None:
        """Why what was committed at an offset may be gone."""
        ledger = self.ledgers[place]
        for lost, reason in ledger.excused.values():
            if lost.base_offset <= offset < lost.end_offset:
                return reason
        return None

    def reset(self, consumer: str, place: Place, position: Offset, start: Offset) -> None:
        """A consumer's position is outside of the log only if what was there is gone."""
        ledger = self.ledgers[place]
        is_deleted = position < ledger.start_offset
        is_lost = bool(ledger.excused)
        require(
            is_deleted or is_lost,
            "a position stays in the log",
            lambda: f"{consumer} at {position} of {ledger.name} is sent to {start}",
        )

    def read(self, consumer: str, place: Place, batch: RecordBatch, high_watermark: Offset) -> None:
        """A consumer sees what is committed, also by what a follower knows; and always the same
        at an offset."""
        ledger = self.ledgers[place]
        found = entry(batch)
        if found.end_offset > high_watermark:
            raise Violation(
                "no replica shows more than its high watermark",
                f"{consumer} got {found[:4]} of {ledger.name} with {high_watermark}",
            )
        if found.end_offset > ledger.high_watermark and found.key not in ledger.excused:
            raise Violation(
                "consumers see what is committed",
                f"{consumer} got {found[:4]} of {ledger.name} before {ledger.high_watermark}",
            )
        known = ledger.committed.at(found.base_offset)
        if known is not None and not known.is_same_as(found) and found.key not in ledger.excused:
            raise Violation(
                "what was read at an offset never changes",
                f"{consumer} got {found[:4]} of {ledger.name}, not {known[:4]}",
            )

    def acknowledged(self, written: Written) -> None:
        """What acks=all was answered with is committed by then."""
        if written.acks != -1 or written.offset < 0:
            return
        ledger = self.ledgers[written.place]
        end_offset = written.offset + len(written.values)
        found = ledger.committed.at(written.offset)
        if found is None and end_offset <= ledger.start_offset:
            return
        require(
            self.excuse(written.place, written.offset) is not None
            or (found is not None and found.end_offset >= end_offset),
            "what is acknowledged is committed",
            lambda: (
                f"{written.producer}: offset {written.offset} of {ledger.name},"
                f" committed up to {ledger.high_watermark}"
            ),
        )
