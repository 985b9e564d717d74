"""One random life of a quorum from a seed: faults, appends, snapshots, changes of voters; then it
heals and must go on."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

from tests.unit.raft.invariants import Invariants
from tests.unit.raft.world import Node, World, dynamic_world, endpoint, static_world

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.metadata.snapshot import SnapshotId, snapshot_content
from tidelog.wire.declare import Message
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tidelog.wire.messages.control_records import KRaftVersionRecord
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

LIFE_MS = 20_000


class Life:
    """What happens to a world, drawn from its seed."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        count = rng.choice([1, 3, 3, 3, 5])
        voter_ids = list(range(1, count + 1))
        self.is_dynamic = rng.random() < 0.5
        settings = {
            "retention_bytes": rng.choice([600, 100 << 20]),
            "auto_join": rng.random() < 0.5,
        }
        self.world: World = (
            dynamic_world(voter_ids, seed, others=(11,), **settings)
            if self.is_dynamic
            else static_world(voter_ids, seed, observers=(21,), **settings)
        )
        self.world.segment_bytes = rng.choice([400, 1 << 20])
        self.world.delays_ms = rng.choice([(1, 5), (1, 50), (1, 300)])
        self.invariants = Invariants(self.world)
        self.counts: Counter[str] = Counter()
        self.loss = rng.choice([0.0, 0.02, 0.2])
        self.voter_ids = voter_ids

    def run(self) -> Counter[str]:
        world = self.world
        for node in world.nodes.values():
            world.after(self.rng.randint(0, 300), partial(self._start, node), node)
        world.loss = self.loss
        self._later(self._fault, 200, 2000)
        self._later(self._append, 1, 300)
        self._later(self._snapshot, 200, 3000)
        if self.is_dynamic:
            self._later(self._change_voters, 500, 4000)
        world.run(LIFE_MS)
        self._heal()
        return self.counts

    def _later(self, action: partial[None] | object, low: int, high: int) -> None:
        assert callable(action)

        def do() -> None:
            if self.world.time_ms < LIFE_MS:
                action()
                self._later(action, low, high)

        self.world.after(self.rng.randint(low, high), do)

    def _start(self, node: Node) -> None:
        if not node.is_up:
            node.start()

    def _fault(self) -> None:
        world, rng = self.world, self.rng
        node = rng.choice(list(world.nodes.values()))
        leader = world.leader()
        if leader is not None and rng.random() < 0.4:
            node = leader
        kind = rng.choice(
            ["power", "kill", "cut", "one way", "heal", "resign", "slow disk", "wipe"]
        )
        self.counts[kind] += 1
        match kind:
            case "power" | "kill" if node.is_up:
                node.crash(power=kind == "power")
                world.after(rng.randint(1, 3000), partial(self._start, node), node)
            case "wipe" if node.is_up and self._may_wipe(node):
                self.counts["wiped"] += 1
                node.crash(power=True)
                node.wipe()
                world.after(rng.randint(1, 3000), partial(self._start, node), node)
            case "cut":
                ids = list(world.nodes)
                rng.shuffle(ids)
                border = rng.randint(1, len(ids))
                world.cut(ids[:border], ids[border:])
            case "one way":
                world.cuts = {(node.id, other) for other in world.nodes if rng.random() < 0.5}
            case "heal":
                world.cuts = set()
            case "resign" if node.is_up:
                node.raft.resign(world.now)
            case "slow disk":
                node.flush_ms = rng.choice([(1, 4), (1, 4), (10, 900)])

    def _may_wipe(self, node: Node) -> bool:
        """A minority: all voters but this one still have the disks that they voted with."""
        leader = self.world.leader()
        if leader is None or not self.is_dynamic or len(leader.raft.voters) < 3:
            return False
        if leader.raft.high_watermark < leader.raft.log.log_end_offset:
            return False
        return all(
            leader.raft.voters.is_voter(self.world.nodes[one].key) for one in leader.raft.voters.ids
        )

    def _append(self) -> None:
        for node in self.world.nodes.values():
            if node.is_up and node.raft.is_leader:
                for _ in range(self.rng.randint(1, 3)):
                    text = f"{node.id} {self.rng.random()}"
                    offset = node.append(text, is_awaited=self.rng.random() < 0.8)
                    self.counts["append"] += offset is not None

    def _snapshot(self) -> None:
        """Of what is committed; its content follows from its id."""
        up = [node for node in self.world.nodes.values() if node.is_up]
        if not up:
            return
        node = self.rng.choice(up)
        raft = node.raft
        end = raft.high_watermark
        seen = self.invariants.seen[node.id]
        last = [b for b in seen.batches if b.next_offset == end]
        latest = raft.snapshots.latest
        if not last or (latest is not None and latest.end_offset >= end):
            return
        snapshot_id = SnapshotId(end, last[0].epoch)
        voters = raft.voters_at(end)
        quorum_records: list[Message] = []
        if voters.kraft_version:
            version = KRaftVersionRecord(version=0, kraft_version=voters.kraft_version)
            quorum_records = [version, voters.voters.to_record()]
        content = snapshot_content(
            [NoOpRecord()],
            epoch=last[0].epoch,
            last_timestamp_ms=0,
            written_at_ms=0,
            quorum_records=quorum_records,
        )
        part = raft.snapshots.begin(snapshot_id)
        part.append(content)
        incarnation = node.incarnation

        def done(error: object, now: Now) -> None:
            if node.incarnation == incarnation:
                raft.snapshots.add(snapshot_id)

        node.flush(incarnation, (part.finish(),), done)
        self.counts["snapshot"] += 1

    def _change_voters(self) -> None:
        leader = self.world.leader()
        if leader is None:
            return
        node = self.rng.choice(list(self.world.nodes.values()))
        raft, now = leader.raft, self.world.now

        def answer(message: Message) -> None:
            code = ErrorCode(message.error_code)  # type: ignore[attr-defined]
            self.counts[f"{type(message).__name__} {code.name}"] += 1

        keys = [raft.voters.key(voter_id) for voter_id in raft.voters.ids]
        gone = [key for key in keys if key != self.world.nodes[key.id].key]
        if gone or node.key in keys:
            # Who removes a living voter while another has lost its disk may lose the quorum.
            removed = gone[0] if gone else node.key
            if gone or len(keys) > 2:
                request = RemoveRaftVoterRequest(
                    cluster_id=None, voter_id=removed.id, voter_directory_id=removed.directory_id
                )
                raft.remove_voter(request, now, answer)
        else:
            point = endpoint(node.id)
            raft.add_voter(
                AddRaftVoterRequest(
                    cluster_id=None,
                    timeout_ms=3000,
                    voter_id=node.id,
                    voter_directory_id=node.key.directory_id,
                    listeners=(Listener(name=point.name, host=point.host, port=point.port),),
                ),
                now,
                answer,
            )

    def _heal(self) -> None:
        """Once nothing fails any more, a leader commits and all have the same."""
        world = self.world
        world.heal()
        world.delays_ms = (1, 5)
        for node in world.nodes.values():
            node.flush_ms = (1, 4)
            self._start(node)
        world.run(5000)  # what was sent before may still end a leadership
        leader = world.elected(timeout_ms=20_000)
        world.committed(leader, "the end")

        def is_equal() -> bool:
            leader = world.leader()
            if leader is None:
                return False
            end = leader.raft.log.log_end_offset
            return all(
                n.raft.high_watermark == end == n.raft.log.log_end_offset
                for n in world.nodes.values()
            )

        world.run_until(is_equal, 20_000)
        self.counts["elections"] += self.invariants.elections
        self.counts["committed"] += len(self.invariants.committed)


def run_seed(seed: int) -> Counter[str]:
    return Life(seed).run()
