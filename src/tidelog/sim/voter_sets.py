"""Invariants of a quorum's voters (KIP-853): the latest set in a log counts, committed or not; sets
that follow each other differ by one voter, and none is appended before the last is committed."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.log.names import LOG, file_name
from tidelog.metadata.batches import read_metadata
from tidelog.raft.raft import Raft
from tidelog.raft.voters import VoterSet
from tidelog.sim.counters import Counters
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.ledger import Entry, ReplicaLog
from tidelog.sim.violation import Violation
from tidelog.types import Uuid
from tidelog.wire.batch import CONTROL, RecordBatch, read_batch
from tidelog.wire.messages.control_records import LeaderChangeMessage, VotersRecord

ATTRIBUTES = slice(21, 23)
"""Of a batch's header."""


class Named(NamedTuple):
    """A set, and the batch that names it."""

    entry: Entry
    voters: VoterSet
    begins_epoch: bool


def keys(voters: VoterSet) -> set[tuple[int, Uuid]]:
    """A voter with another disk is another voter."""
    return {(one.voter_id, one.voter_directory_id) for one in voters.voters.values()}


class VoterSets:
    """Of every machine's metadata log."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._before: dict[str, VoterSet | None] = {}
        """What counts before the first set that a log names, where that is known."""
        self._named: dict[str, list[Named]] = {}

    def started(
        self, machine: str, path: str, disk: SimulatedDisk, raft: Raft, log: ReplicaLog
    ) -> None:
        """With all that lies in its log."""
        found = (named(path, disk, one) for one in log.entries)
        self._named[machine] = [one for one in found if one is not None]
        self._before[machine] = None if self._named[machine] else raft.voters
        self._check_latest(machine, raft)

    def grew(
        self,
        machine: str,
        path: str,
        disk: SimulatedDisk,
        raft: Raft,
        log: ReplicaLog,
        added: list[Entry],
    ) -> None:
        """A log was cut, or has more."""
        self._drop(machine, raft, log)
        for one in added:
            found = named(path, disk, one)
            if found is not None:
                self._append(machine, raft, found)
        self._check_latest(machine, raft)

    def _drop(self, machine: str, raft: Raft, log: ReplicaLog) -> None:
        """What was truncated counts no more; what a snapshot took the place of still does."""
        kept = []
        for one in self._named[machine]:
            if one.entry.end_offset <= log.start_offset:
                self._before[machine] = one.voters
            elif log.holds(one.entry):
                kept.append(one)
        self._named[machine] = kept
        if not log.entries:
            self._before[machine] = raft.voters  # of a snapshot that was fetched

    def _append(self, machine: str, raft: Raft, added: Named) -> None:
        sets = self._named[machine]
        is_own = raft.is_leader and added.entry.epoch == raft.epoch
        may_be_next = added.begins_epoch or not sets  # a leader says at once where it is
        if is_own and not may_be_next and sets[-1].entry.end_offset > raft.high_watermark:
            raise Violation(
                "one change of the voters at a time",
                f"{machine} appends {added.voters} at {added.entry.base_offset}, and the one at"
                f" {sets[-1].entry.base_offset} is not committed",
            )
        before = sets[-1].voters if sets else self._before[machine]
        sets.append(added)
        if not before:
            return  # a new disk knows of no voters
        gone, come = keys(before) - keys(added.voters), keys(added.voters) - keys(before)
        if len(gone) + len(come) > 1:
            raise Violation(
                "sets of voters differ by one voter",
                f"{machine}: {added.voters} at {added.entry.base_offset} after {before}",
            )
        if gone:
            self._counters.reached("a voter was removed")
        if come:
            self._counters.reached("a voter was added")

    def _check_latest(self, machine: str, raft: Raft) -> None:
        sets = self._named[machine]
        latest = sets[-1].voters if sets else self._before[machine]
        if latest is not None and raft.voters != latest:
            raise Violation(
                "the latest voters in the log count",
                f"{machine} goes by {raft.voters}, its log says {latest}",
            )


def named(path: str, disk: SimulatedDisk, one: Entry) -> Named | None:
    """The voters in a batch, if there are any."""
    content = disk.content(f"{path}/{file_name(one.segment, LOG)}")
    found = bytes(content[one.position : one.end_position])
    if not int.from_bytes(found[ATTRIBUTES], "big") & CONTROL:
        return None
    batch = read_batch(memoryview(found), 0, len(found))
    assert isinstance(batch, RecordBatch)
    records = [logged.record for logged in read_metadata(batch)]
    begins_epoch = any(isinstance(record, LeaderChangeMessage) for record in records)
    for record in reversed(records):
        if isinstance(record, VotersRecord):
            return Named(one, VoterSet(record.voters), begins_epoch)
    return None
