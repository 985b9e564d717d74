"""Invariants of the metadata quorum, checked after every step for the node that made it."""

from __future__ import annotations

import struct

from tidelog.events import ConnectionId, Received
from tidelog.log.names import LOG, file_name
from tidelog.metadata.format import METADATA_DIRECTORY
from tidelog.metadata.snapshot import Snapshot, parse_snapshot_name, read_snapshot
from tidelog.raft.election_state import QUORUM_STATE, parse_quorum_state
from tidelog.raft.raft import Raft
from tidelog.raft.types import NOBODY
from tidelog.raft.voters import VoterSet
from tidelog.sim.counters import Counters
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.disk_logs import follow, surviving
from tidelog.sim.ledger import Entry, Ledger, ReplicaLog
from tidelog.sim.plan import host
from tidelog.sim.violation import Violation, require
from tidelog.sim.voter_sets import VoterSets
from tidelog.types import Offset
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.messages.vote import VoteRequest, VoteResponse
from tidelog.wire.request import Request, decode_any, decode_response

PATH = f"data/{METADATA_DIRECTORY}"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
FETCH_KEY = int(ApiKey.FETCH).to_bytes(2, "big")
VOTE_KEY = int(ApiKey.VOTE).to_bytes(2, "big")
SERVED = {int(ApiKey.VOTE): APIS[ApiKey.VOTE].versions}
RAFT_CLIENT, CLIENT_ID = b"raft-client", 14
"""Whose fetches are of the metadata log, and where a request says whose it is."""
ASKED = struct.Struct(">16sxiiqi")
"""Of a fetch of one partition: topic id, a count, partition, leader epoch, offset, last epoch."""

Mark = tuple[int, int, bool, Offset, Offset, Offset, VoterSet]
"""Epoch, leader, whether that is this node, high watermark, end, start, voters."""


def mark(raft: Raft) -> Mark:
    log = raft.log
    return (
        raft.epoch,
        raft.leader_id,
        raft.is_leader,
        raft.high_watermark,
        log.log_end_offset,
        log.log_start_offset,
        raft.voters,
    )


class QuorumInvariants:
    """The nodes of one quorum, observers too."""

    def __init__(self, counters: Counters) -> None:
        self.ledger = Ledger("the metadata log")
        self._counters = counters
        self._marks: dict[str, Mark] = {}
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[str, int, int], int] = {}
        """Whom a machine voted for, by the number of its disk and the epoch."""
        self._disks: dict[str, int] = {}
        self._asked: dict[tuple[str, ConnectionId, int], Request] = {}
        """Vote requests that a machine has not answered."""
        self._snapshots: dict[str, Snapshot] = {}
        self._disk_of: dict[str, SimulatedDisk] = {}
        self._rafts: dict[str, Raft] = {}
        self._voters: dict[str, None] = {}
        self._voter_sets = VoterSets(counters)
        self._told: dict[str, int] = {}
        """The last epoch that a machine has told others, with the disk that it has."""
        self._replaced: dict[str, ReplicaLog] = {}
        """What was on a machine's last disk before the present one."""

    # What happens to machines.

    def started(self, machine: str, disk: SimulatedDisk, raft: Raft) -> None:
        self._disk_of[machine] = disk
        self.ledger.replicas.pop(machine, None)
        follow(self.ledger, machine, disk, raft.log, may_be_rewritten=False)
        self._marks[machine], self._rafts[machine] = mark(raft), raft
        self._note_voter(machine, raft)
        self._voter_sets.started(machine, PATH, disk, raft, self.ledger.replica(machine))
        require(
            raft.epoch >= self._told.get(machine, 0),
            "no epoch is forgotten",
            lambda: f"{machine} starts in {raft.epoch}, and told {self._told[machine]} before",
        )
        if raft.is_leader:
            # A quorum of one has elected itself while it was loaded.
            self._leaders.setdefault(raft.epoch, raft.leader_id)
            self.ledger.commit(machine, raft.high_watermark)

    def _note_voter(self, machine: str, raft: Raft) -> None:
        if raft.is_voter:
            self._voters[machine] = None
        else:
            self._voters.pop(machine, None)

    def ended(self, machine: str) -> None:
        self._marks.pop(machine, None)
        for key in [key for key in self._asked if key[0] == machine]:
            del self._asked[key]

    def lost(self, machine: str, disk: SimulatedDisk, *, is_new_disk: bool) -> None:
        """What is committed is on so many disks, durably, that no power failure takes it."""
        self._disk_of[machine] = disk
        left = surviving(disk, PATH)
        found = map(parse_snapshot_name, disk.names(PATH))
        left.start_offset = max((one.end_offset for one in found if one is not None), default=0)
        before = self.ledger.replicas.get(machine)
        if is_new_disk and before is not None:
            self._replaced[machine] = before
        for gone in self.ledger.lost(machine, left, "power"):
            raise Violation(
                "committed metadata is durable",
                f"{machine} was the last to hold {gone[:4]}, which is committed",
            )
        if is_new_disk:
            self._disks[machine] = self._disks.get(machine, 0) + 1
            self._told.pop(machine, None)

    # A step.

    def stepped(self, machine: str, disk: SimulatedDisk, raft: Raft) -> None:
        now, before = mark(raft), self._marks[machine]
        if now != before:
            self._marks[machine] = now
            self._note_voter(machine, raft)
            self._changed(machine, disk, raft, before, now)

    def _changed(
        self, machine: str, disk: SimulatedDisk, raft: Raft, before: Mark, now: Mark
    ) -> None:
        epoch, leader, is_leader, high_watermark, end, start, _ = now
        require(
            epoch >= before[0],
            "the quorum's epoch never falls",
            lambda: f"{machine}: from {before[0]} to {epoch}",
        )
        if leader != NOBODY:
            known = self._leaders.setdefault(epoch, leader)
            require(
                known == leader,
                "one leader of the quorum per epoch",
                lambda: f"{machine}: {leader} leads epoch {epoch}, elsewhere {known}",
            )
        require(
            high_watermark >= before[3] and high_watermark <= end,
            "the quorum's high watermark never falls and is in the log",
            lambda: f"{machine}: from {before[3]} to {high_watermark}, end {end}",
        )
        leads_on = is_leader and before[2] and epoch == before[0]
        require(
            (end >= before[4] and start <= before[4]) or not leads_on,
            "a leader of the quorum never truncates, nor loads a snapshot",
            lambda: f"{machine}: from {before[4]} to {start}-{end} in epoch {epoch}",
        )
        if start != before[5]:
            self._check_start(machine, disk, start)
            is_own = start <= before[4]
            self._counters.reached(
                "a metadata log was cut behind a snapshot" if is_own else "a snapshot was fetched"
            )
        if end != before[4] or start != before[5] or epoch != before[0]:
            if end < before[4]:
                self._counters.reached("a voter truncated the metadata log")
            rewritten = epoch != before[0] or end < before[4]
            added = follow(self.ledger, machine, disk, raft.log, may_be_rewritten=rewritten)
            replica = self.ledger.replica(machine)
            self._voter_sets.grew(machine, PATH, disk, raft, replica, added)
        if is_leader and not leads_on:
            self._begin(machine, epoch)
        if before[2] and not is_leader and epoch == before[0]:
            self._counters.reached("a leader of the quorum resigned")
        if high_watermark > before[3]:
            self._check_committed(machine, disk, raft)

    def _begin(self, machine: str, epoch: int) -> None:
        self._counters.reached("a voter became the quorum's leader")
        if epoch < max(self._leaders):
            self._counters.reached("a voter learned too late that it led the quorum")
            return  # votes were long on their way: others lead, and what they commit it cannot have
        self.ledger.lead(machine, is_unclean=False)

    def _check_committed(self, machine: str, disk: SimulatedDisk, raft: Raft) -> None:
        high_watermark, ledger = raft.high_watermark, self.ledger
        if not raft.is_leader:
            require(
                high_watermark <= ledger.high_watermark,
                "no voter is ahead of every leader of the quorum",
                lambda: f"{machine}: {high_watermark} of {ledger.high_watermark}",
            )
            if high_watermark > raft.log.log_start_offset:
                ledger.check_below(machine, high_watermark, "nodes agree on committed metadata")
            return
        last = ledger.replica(machine).at(high_watermark - 1)
        require(
            last is not None and last.epoch == raft.epoch,
            "a leader commits by a record of its own epoch",
            lambda: f"{machine} in epoch {raft.epoch} commits {last and last[:4]}",
        )
        assert last is not None
        ledger.commit(machine, high_watermark)
        holders = [voter for voter in raft.voters.ids if self._is_durable(host(voter), last)]
        require(
            raft.voters.is_majority(holders),
            "what is committed is on a majority of disks",
            lambda: f"{machine} commits {last[:4]}, which {holders} of {raft.voters} hold",
        )

    def _is_durable(self, machine: str, wanted: Entry) -> bool:
        replaced = self._replaced.get(machine)
        if replaced is not None and replaced.holds(wanted):
            # What it said of it may arrive later. The voter that had that disk is lost, as one of
            # a minority: the others cannot elect anybody without one that has it, too.
            return True
        replica = self.ledger.replicas.get(machine)
        if replica is None or not replica.holds(wanted):
            return False
        own = replica.at(wanted.base_offset)
        if own is None:
            return True  # in a snapshot
        path = f"{PATH}/{file_name(own.segment, LOG)}"
        return self._disk_of[machine].durable_size(path) >= own.end_position

    def _check_start(self, machine: str, disk: SimulatedDisk, start: Offset) -> None:
        """The log begins where a snapshot ends; equal snapshots say the same."""
        names = {name: parse_snapshot_name(name) for name in disk.names(PATH)}
        found = [name for name, key in names.items() if key is not None and key.end_offset == start]
        require(
            start == 0 or bool(found),
            "the metadata log begins where a snapshot ends",
            lambda: f"{machine}: begins at {start}, snapshots {list(names)}",
        )
        for name in found:
            key = names[name]
            assert key is not None
            found_now = read_snapshot(bytes(disk.peek(f"{PATH}/{name}")), key)
            if self._snapshots.setdefault(name, found_now) != found_now:
                raise Violation("equal snapshots say the same", f"{machine}: {name} differs")
            self._counters.reached("a metadata log began with a snapshot")

    # What leaves a node.

    def received(self, machine: str, event: Received) -> None:
        """Remember votes that it is asked for."""
        request = event.request
        if isinstance(request, Request) and isinstance(request.message, VoteRequest):
            self._asked[machine, event.connection, request.correlation_id] = request

    def sent(
        self, machine: str, disk: SimulatedDisk, connection: ConnectionId, frame: bytes
    ) -> None:
        """Nothing that others rely upon leaves before it is durable."""
        if connection < 0:
            is_voter = machine in self._voters
            if is_voter and frame[4:6] == FETCH_KEY and frame.startswith(RAFT_CLIENT, CLIENT_ID):
                # The step that sends it may have changed the log, or replaced it by a snapshot.
                self.stepped(machine, disk, self._rafts[machine])
                self._check_fetch(machine, disk, frame)
            elif frame[4:6] == VOTE_KEY:
                self._check_candidate(machine, disk, decode_any(memoryview(frame)[4:], SERVED))
            return
        if not self._asked:
            return
        request = self._asked.pop((machine, connection, int.from_bytes(frame[4:8], "big")), None)
        if request is not None:
            self._check_vote(machine, disk, request, frame)

    def _check_vote(
        self, machine: str, disk: SimulatedDisk, request: Request, frame: bytes
    ) -> None:
        answer = decode_response(
            memoryview(frame)[4:], request.key, request.version, request.correlation_id
        )
        assert isinstance(answer, VoteResponse)
        assert isinstance(request.message, VoteRequest)
        asked = request.message.topics[0].partitions[0]
        if not answer.topics or not answer.topics[0].partitions[0].vote_granted:
            return
        if asked.pre_vote:
            self._counters.reached("a pre-vote was granted")
            return
        self._counters.reached("a vote was given")
        self._check_given(machine, disk, asked.replica_epoch, asked.replica_id)

    def _check_candidate(self, machine: str, disk: SimulatedDisk, request: Request) -> None:
        """Who asks for votes has its own."""
        assert isinstance(request.message, VoteRequest)
        asked = request.message.topics[0].partitions[0]
        if not asked.pre_vote:
            self._check_given(machine, disk, asked.replica_epoch, asked.replica_id)

    def _check_given(self, machine: str, disk: SimulatedDisk, epoch: int, candidate: int) -> None:
        key = machine, self._disks.get(machine, 0), epoch
        other = self._votes.setdefault(key, candidate)
        require(
            other == candidate,
            "one vote per epoch",
            lambda: f"{machine} votes for {other} and {candidate} in epoch {epoch}",
        )
        path = f"{PATH}/{QUORUM_STATE}"
        state = parse_quorum_state(path, disk.durable_file(path))
        is_durable = state.epoch > epoch or (
            state.epoch == epoch and state.voted is not None and state.voted.id == candidate
        )
        require(
            is_durable,
            "a vote is durable before it is told",
            lambda: f"{machine} votes for {candidate} in epoch {epoch}, its disk says {state}",
        )

    def _check_fetch(self, machine: str, disk: SimulatedDisk, frame: bytes) -> None:
        """A voter that asks for what follows has all before it on its disk."""
        found = ASKED.unpack_from(frame, frame.index(METADATA_TOPIC_ID))
        topic_id, partition, epoch, offset, last_epoch = found
        assert (topic_id, partition) == (METADATA_TOPIC_ID, 0)
        if epoch > self._told.get(machine, 0):
            self._told[machine] = epoch
            path = f"{PATH}/{QUORUM_STATE}"
            state = parse_quorum_state(path, disk.durable_file(path))
            require(
                state.epoch >= epoch,
                "an epoch is durable before it is told",
                lambda: f"{machine} fetches in epoch {epoch}, its disk says {state}",
            )
        last = self.ledger.replica(machine).at(offset - 1)
        if last is None or last.epoch != last_epoch:
            return  # written before it cut its log, and sent when the connection was there
        durable = disk.durable_size(f"{PATH}/{file_name(last.segment, LOG)}")
        require(
            durable >= last.end_position,
            "a voter acknowledges what is durable",
            lambda: f"{machine} fetches at {offset}, of {last} only {durable} bytes are durable",
        )
