"""What must hold of a quorum after every event: replication.md §21, 11 to 15."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from tests.unit.raft.world import PATH, Node, World

from tidelog.metadata.batches import read_metadata
from tidelog.metadata.snapshot import SnapshotId, parse_snapshot_name, snapshot_name
from tidelog.raft.election_state import ElectionState, parse_quorum_state
from tidelog.raft.roles import Leader
from tidelog.raft.voters import VoterSet
from tidelog.wire.batch import BatchWalk
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import VotersRecord
from tidelog.wire.messages.vote import VoteRequest, VoteResponse

READ_BYTES = 64 << 20


class Batch(NamedTuple):
    """One of a node's log."""

    base_offset: int
    next_offset: int
    epoch: int
    content: bytes
    voters: VoterSet | None


class Seen:
    """What was seen of a node's process."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.log_start = 0
        self.high_watermark = 0
        self.generation = 0
        self.state = ElectionState()
        self.told_epoch = 0
        """The latest that others have heard of from it."""
        self.led: int | None = None
        self.log: object = None
        """Start, end and last epoch of the log when it was read."""
        self.snapshots: list[SnapshotId] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log_start


class Invariants:
    """Put into a world as a check and a watcher."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: dict[int, Seen] = {}
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, bytes, int], Any] = {}
        self.by_place: dict[tuple[int, int], tuple[bytes, tuple[int, int] | None]] = {}
        self.committed: list[Batch] = []
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.elections = 0
        world.checks.append(self.check)
        world.watchers.append(self)

    # Watching.

    def started(self, node: Node) -> None:
        stored = parse_quorum_state("", node.disk.read_file(f"{PATH}/quorum-state"))
        before = self.seen.get(node.id)
        seen = self.seen[node.id] = Seen()
        seen.generation = node.generation
        seen.state = stored
        if before is not None and before.generation == node.generation:
            assert stored.epoch >= before.told_epoch, f"{node} forgot an epoch that it told"
            seen.told_epoch = before.told_epoch
        self.check(node)

    def crashed(self, node: Node) -> None:
        pass

    def sent(self, node: Node, peer: Node, request: Message) -> None:
        self._told(node)
        if isinstance(request, VoteRequest):
            asked = request.topics[0].partitions[0]
            if not asked.pre_vote:
                self._voted(node, asked.replica_epoch, node.id)

    def _told(self, node: Node) -> None:
        """Whatever leaves, the file says already what it is made of."""
        seen = self.seen.get(node.id)
        if seen is not None:
            seen.told_epoch = max(seen.told_epoch, node.raft.epoch)

    def answered(self, peer: Node, node: Node, request: Message, response: Message) -> None:
        """A vote that leaves is durable, and the only one of its epoch."""
        self._told(peer)
        if isinstance(request, VoteRequest) and isinstance(response, VoteResponse):
            asked = request.topics[0].partitions[0]
            is_granted = response.topics and response.topics[0].partitions[0].vote_granted
            if is_granted and not asked.pre_vote:
                self._voted(peer, asked.replica_epoch, asked.replica_id)

    def _voted(self, voter: Node, epoch: int, candidate: int) -> None:
        durable = voter.disk.crash().read_file(f"{PATH}/quorum-state")
        stored = parse_quorum_state("", durable)
        is_stored = stored.voted is not None and stored.voted.id == candidate
        assert stored.epoch > epoch or (stored.epoch == epoch and is_stored)
        given = self.votes.setdefault((voter.id, voter.key.directory_id, epoch), candidate)
        assert given == candidate, f"{voter} voted twice in epoch {epoch}"

    # Checking.

    def check(self, node: Node | None) -> None:
        """After an event of a node, or of nobody knows whom."""
        for one in self.world.nodes.values() if node is None else [node]:
            if one.is_up and one.id in self.seen:
                self._check(one)

    def _check(self, node: Node) -> None:
        raft, seen = node.raft, self.seen[node.id]
        assert raft.epoch >= seen.state.epoch
        if raft.epoch == seen.state.epoch and seen.state.voted is not None:
            assert raft.state.voted is not None
            assert raft.state.voted.id == seen.state.voted.id
        was_leader = seen.led == raft.epoch
        seen.state = raft.state
        log = raft.log
        shape = log.log_start_offset, log.log_end_offset, log.leader_epochs.latest
        if shape != seen.log:
            seen.log = shape
            self._check_log(node, seen, was_leader=was_leader)
            self._check_voters(node, seen)
        if raft.is_leader:
            if seen.led != raft.epoch:
                seen.led = raft.epoch
                self._check_new_leader(node, seen)
        elif seen.led == raft.epoch:
            seen.led = None
        role = raft._quorum.role
        if isinstance(role, Leader):
            mark = role.high_watermark
            assert mark is None or mark > role.start_offset, f"{node} commits earlier epochs alone"
        assert raft.high_watermark >= seen.high_watermark
        assert raft.high_watermark <= raft.log.log_end_offset
        if raft.high_watermark > seen.high_watermark:
            seen.high_watermark = raft.high_watermark
            self._check_committed(node, seen)
        if raft.snapshots.ids != seen.snapshots:
            seen.snapshots = list(raft.snapshots.ids)
            self._check_snapshots(node)
        start = log.log_start_offset
        assert start == 0 or any(one.end_offset == start for one in seen.snapshots)

    def _check_log(self, node: Node, seen: Seen, *, was_leader: bool) -> None:
        """Log matching, and no truncation of what may not be."""
        log = node.raft.log
        if log.log_start_offset > seen.log_start:
            seen.log_start = log.log_start_offset
            seen.batches = [b for b in seen.batches if b.next_offset > seen.log_start]
        end = log.log_end_offset
        found = read_batches(log, min(seen.end_offset, end))
        if end < seen.end_offset or (seen.batches and self._is_changed(log, seen)):
            assert not (was_leader and node.raft.is_leader), f"{node} leads and truncates"
            kept = [b for b in seen.batches if b.next_offset <= end]
            actual = read_batches(log, log.log_start_offset)
            common = 0
            while common < len(kept) and common < len(actual) and kept[common] == actual[common]:
                common += 1
            end_of_common = kept[common - 1].next_offset if common else seen.log_start
            assert end_of_common >= seen.high_watermark, f"{node} truncates what is committed"
            seen.batches, found = actual[:common], actual[common:]
        for batch in found:
            self._match(batch, seen.batches[-1] if seen.batches else None)
            seen.batches.append(batch)

    def _is_changed(self, log: Any, seen: Seen) -> bool:
        """Whether the last batch is another one now: truncated and grown in one event."""
        last = seen.batches[-1]
        actual = read_batches(log, last.base_offset)
        return not actual or actual[0] != last

    def _match(self, batch: Batch, before: Batch | None) -> None:
        place = batch.base_offset, batch.epoch
        earlier = None if before is None else (before.base_offset, before.epoch)
        known = self.by_place.get(place)
        if known is None:
            self.by_place[place] = batch.content, earlier
            return
        assert known[0] == batch.content, f"two batches at {place}"
        if earlier is not None and known[1] is not None:
            assert known[1] == earlier, f"{place} follows {known[1]} and {earlier}"
        elif known[1] is None:
            self.by_place[place] = batch.content, earlier

    def _check_new_leader(self, node: Node, seen: Seen) -> None:
        """One leader an epoch, which has all that was committed before."""
        epoch = node.raft.epoch
        assert self.leaders.setdefault(epoch, node.id) == node.id, f"two leaders of {epoch}"
        self.elections += 1
        have = {b.base_offset: b for b in seen.batches}
        for batch in self.committed:
            if batch.next_offset > seen.log_start:
                assert have.get(batch.base_offset) == batch, f"{node} lacks {batch[:3]}"

    def _check_committed(self, node: Node, seen: Seen) -> None:
        """What is committed stays so, and is durable on a majority."""
        below = [b for b in seen.batches if b.next_offset <= seen.high_watermark]
        if not below:
            return
        known = {b.base_offset: b for b in self.committed}
        for batch in below:
            if batch.base_offset in known:
                assert known[batch.base_offset] == batch, f"{batch[:3]} was committed differently"
            elif not self.committed or batch.base_offset >= self.committed[-1].next_offset:
                # A leader that has removed itself resigns with that commit.
                leads = node.raft.is_leader or node.raft.role_name == "resigned"
                assert leads, f"{node} knows of a commit before the leader"
                self.committed.append(batch)
        if node.raft.is_leader:
            voters = node.raft.voters
            holders = [v for v in voters.ids if self._holds(v, below[-1], voters)]
            assert voters.is_majority(holders), f"{below[-1][:3]} is only on {holders}"

    def _holds(self, voter_id: int, batch: Batch, voters: VoterSet) -> bool:
        """On disk, so that a power failure does not take it."""
        node = self.world.nodes[voter_id]
        if not voters.is_voter(node.key) or not hasattr(node, "raft"):
            return False
        for path, inode in node.disk._durable.items():
            durable = b"" if inode is None else inode.content[: inode.stable_size]
            if path.endswith(".log") and batch.content in durable:
                return True
            snapshot_id = parse_snapshot_name(path.rpartition("/")[2])
            if snapshot_id is not None and snapshot_id.end_offset >= batch.next_offset:
                return True
        return False

    def _check_voters(self, node: Node, seen: Seen) -> None:
        """One change at a time, and the latest counts."""
        sets = [(b.next_offset, b.voters) for b in seen.batches if b.voters is not None]
        if sets:
            assert node.raft.voters == sets[-1][1]
        uncommitted = [voters for end, voters in sets if end > node.raft.high_watermark]
        if node.raft.is_leader and ("gained", node.raft.epoch) in node.heard.news:
            assert len(uncommitted) <= 1
        for (_, one), (_, two) in pairwise(sets):
            assert one is not None
            assert two is not None
            assert len(set(one.ids) ^ set(two.ids)) <= 1

    def _check_snapshots(self, node: Node) -> None:
        for snapshot_id in node.raft.snapshots.ids:
            content = node.disk.read_file(f"{PATH}/{snapshot_name(*snapshot_id)}") or b""
            assert self.snapshots.setdefault(snapshot_id, content) == content


def read_batches(log: Any, offset: int) -> list[Batch]:
    """From an offset to the end."""
    batches = []
    while offset < log.log_end_offset:
        found = log.read(offset, log.log_end_offset, READ_BYTES)
        for batch in BatchWalk(found.read()):
            voters = None
            if batch.is_control:
                for logged in read_metadata(batch):
                    if isinstance(logged.record, VotersRecord):
                        voters = VoterSet(logged.record.voters)
            content = bytes(batch.to_view())
            if batch.next_offset > offset:
                batches.append(
                    Batch(
                        batch.base_offset,
                        batch.next_offset,
                        batch.partition_leader_epoch,
                        content,
                        voters,
                    )
                )
            offset = max(offset, batch.next_offset)
    return batches
