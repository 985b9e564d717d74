"""A quorum in one process: virtual time, a network that loses and delays, disks that crash; all
from one seed. Requests and answers cross it as the bytes of their newest versions."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.env import DiskFull, FileSlice, Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.recovery import load
from tidelog.metadata.format import initial_voters_checkpoint
from tidelog.metadata.snapshot import SnapshotId
from tidelog.raft.config import RaftConfig
from tidelog.raft.raft import Raft
from tidelog.raft.types import (
    Address,
    FlushDone,
    Probed,
    RaftListener,
    ReplicaKey,
    Then,
    Work,
)
from tidelog.raft.voters import voter_of
from tidelog.sim.disk import SimulatedDisk
from tidelog.types import Uuid
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.declare import Message
from tidelog.wire.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from tidelog.wire.messages.control_records import Endpoint
from tidelog.wire.request import (
    Request,
    decode_any,
    decode_response,
    encode_request,
    encode_response,
)

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
WALL_MS = 1_700_000_000_000
PATH = "data/__cluster_metadata-0"
SERVED = {key: api.versions for key, api in APIS.items()}


def address(node_id: int) -> Address:
    return Address(f"host{node_id}", 9000 + node_id)


def directory(node_id: int, generation: int = 0) -> Uuid:
    return Uuid(bytes([generation, node_id & 0xFF]) * 8)


def endpoint(node_id: int) -> Endpoint:
    return Endpoint(name="CONTROLLER", host=address(node_id).host, port=address(node_id).port)


def empty_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(PATH)
    disk.flush_directory("data")
    return disk


class Heard:
    """What a listener was told, in order."""

    def __init__(self) -> None:
        self.news: list[tuple[Any, ...]] = []
        self.failure: str | None = None

    def leader_changed(self, leader_id: int, epoch: int, now: Now) -> None:
        self.news.append(("leader", leader_id, epoch))

    def became_leader(self, epoch: int, now: Now) -> None:
        self.news.append(("gained", epoch))

    def lost_leadership(self, epoch: int, now: Now) -> None:
        self.news.append(("lost", epoch))

    def high_watermark_moved(self, high_watermark: int, now: Now) -> None:
        self.news.append(("high watermark", high_watermark))

    def snapshot_loaded(self, snapshot_id: SnapshotId, now: Now) -> None:
        self.news.append(("snapshot", snapshot_id))

    def failed(self, reason: str) -> None:
        self.failure = reason


class Node:
    """A process and its disk."""

    def __init__(self, world: World, node_id: int, *, is_controller: bool = True) -> None:
        self.world = world
        self.id = node_id
        self.is_controller = is_controller
        self.generation = 0
        self.directory_id: Uuid | None = None
        """Where a test wants a special one."""
        self.disk = empty_disk()
        self.is_up = False
        self.incarnation = 0
        self.heard = Heard()
        self.raft: Raft
        self.settings: dict[str, Any] = {}
        self.flush_ms = (1, 4)
        self.flushes_at_once = False
        self.flush_count = 0
        self.flush_errors: list[OSError | DiskFull] = []
        """What comes of the next flushes."""
        self.pending: list[tuple[tuple[Work, ...], FlushDone]] = []

    def __repr__(self) -> str:
        return f"node {self.id}"

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.directory_id or directory(self.id, self.generation))

    def format(self, voter_ids: list[int]) -> None:
        """As --initial-controllers does."""
        voters = [voter_of(ReplicaKey(one, directory(one)), [endpoint(one)]) for one in voter_ids]
        path = f"{PATH}/00000000000000000000-0000000000.checkpoint"
        self.disk.replace(path, initial_voters_checkpoint(voters, WALL_MS))

    def start(self) -> Raft:
        world, now = self.world, self.world.now
        self.is_up = True
        self.incarnation += 1
        self.heard = Heard()
        self.disk.wall_ms = now.wall_ms
        log = load(
            self.disk,
            PATH,
            LogConfig(segment_bytes=world.segment_bytes, retention_ms=-1),
            is_clean=False,
            recovery_point=0,
            log_start_offset=0,
            now=now,
        )
        config = RaftConfig(
            **{
                "endpoints": (endpoint(self.id),) if self.is_controller else (),
                "is_controller": self.is_controller,
                **world.settings,
                **self.settings,
            }
        )
        rng = random.Random(world.rng.randrange(1 << 30))
        incarnation = self.incarnation
        self.raft = Raft(
            config,
            self.id,
            self.key.directory_id,
            CLUSTER_ID,
            log,
            rng,
            Link(world, self, incarnation),
            partial(self.flush, incarnation),
            self.listener(log),
        )
        self.made()
        self.raft.start(now)
        world.started(self)
        return self.raft

    def listener(self, log: Log) -> RaftListener:
        """Who is told what happens."""
        return self.heard

    def made(self) -> None:
        """Before raft starts."""

    def flush(self, incarnation: int, work: tuple[Work, ...], then: FlushDone) -> None:
        self.flush_count += 1
        if self.flushes_at_once:
            for one in work:
                one.flush(self.disk)
            then(None, self.world.now)
            return
        entry = work, then
        self.pending.append(entry)

        def done() -> None:
            if incarnation == self.incarnation and self.is_up:
                self.pending.remove(entry)
                if self.flush_errors:
                    then(self.flush_errors.pop(0), self.world.now)
                    return
                try:
                    for one in work:
                        one.flush(self.disk)
                except (OSError, DiskFull) as error:
                    then(error, self.world.now)
                else:
                    then(None, self.world.now)

        self.world.after(self.world.rng.randint(*self.flush_ms), done, self)

    def wipe(self) -> None:
        """Another disk: the same id, and nothing else left."""
        self.generation += 1
        self.disk = empty_disk()

    def crash(self, *, power: bool) -> None:
        """The process is gone; with the power, what was not flushed may be too."""
        rng = self.world.rng
        for work, _ in self.pending:
            if rng.random() < 0.5:  # it was done, only nobody heard of it
                for one in work:
                    one.flush(self.disk)
        self.pending.clear()
        self.is_up = False
        self.incarnation += 1
        if power:
            self.disk = self.disk.crash(
                lambda path, unsynced: rng.randint(0, unsynced),
                lambda changes: rng.randint(0, changes),
                keep_cuts=rng.random() < 0.5,
            )
        else:
            self.disk = self.disk.copy()
        self.world.crashed(self)

    def handle(self, request: Message, answer: Callable[[Message], None]) -> None:
        raft, now = self.raft, self.world.now
        handlers: dict[ApiKey, Callable[..., None]] = {
            ApiKey.VOTE: raft.vote,
            ApiKey.BEGIN_QUORUM_EPOCH: raft.begin_quorum_epoch,
            ApiKey.END_QUORUM_EPOCH: raft.end_quorum_epoch,
            ApiKey.FETCH: raft.fetch,
            ApiKey.FETCH_SNAPSHOT: raft.fetch_snapshot,
            ApiKey.ADD_RAFT_VOTER: raft.add_voter,
            ApiKey.REMOVE_RAFT_VOTER: raft.remove_voter,
            ApiKey.UPDATE_RAFT_VOTER: raft.update_voter,
            ApiKey.DESCRIBE_QUORUM: raft.describe_quorum,
            ApiKey.API_VERSIONS: api_versions,
        }
        assert request.API_KEY is not None
        handlers[request.API_KEY](request, now, answer)

    def append(self, text: str, *, is_awaited: bool = True) -> int | None:
        """A record by the leader; its offset."""
        builder = BatchBuilder()
        builder.append(None, text.encode(), timestamp=self.world.now.wall_ms)
        appended = self.raft.append(builder.build(), self.world.now, is_awaited=is_awaited)
        return None if isinstance(appended, ErrorCode) else appended.base_offset


def api_versions(request: Message, now: Now, answer: Callable[[Message], None]) -> None:
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    answer(ApiVersionsResponse(error_code=0, api_keys=(), supported_features=(feature,)))


class Link:
    """A node's channel."""

    def __init__(self, world: World, node: Node, incarnation: int) -> None:
        self.world, self.node, self.incarnation = world, node, incarnation

    def send(self, to: Address, request: Message, then: Then, now: Now, timeout_ms: int) -> None:
        Call(self, to, request, then, timeout_ms).start()

    def probe(self, to: Address, then: Probed, now: Now) -> None:
        world, node = self.world, self.node

        def arrive() -> None:
            peer = world.at(to)
            if not world.is_cut(node.id, peer.id) and self.is_alive:
                then(not peer.is_up, world.now)

        world.after(world.delay(), arrive, node)

    @property
    def is_alive(self) -> bool:
        return self.node.is_up and self.node.incarnation == self.incarnation


class Call:
    """A request on its way and back; it ends once."""

    def __init__(
        self, link: Link, to: Address, request: Message, then: Then, timeout_ms: int
    ) -> None:
        self.link, self.world, self.node = link, link.world, link.node
        self.request, self.then, self.timeout_ms = request, then, timeout_ms
        self.peer = self.world.at(to)
        self.is_over = False
        self.peer_incarnation = -1

    def start(self) -> None:
        world = self.world
        world.sent(self.node, self.peer, self.request)
        world.after(self.timeout_ms, partial(self.end, PeerFailure.TIMED_OUT), self.node)
        if not world.is_lost(self.node.id, self.peer.id):
            world.after(world.delay(), self.arrive, self.peer)

    def arrive(self) -> None:
        world, peer = self.world, self.peer
        if world.is_cut(self.node.id, peer.id):
            return
        if not peer.is_up:
            world.after(world.delay(), partial(self.end, PeerFailure.REFUSED), self.node)
            return
        self.peer_incarnation = peer.incarnation
        world.calls.append(self)
        peer.handle(through_the_wire(self.request), self.answer)

    def answer(self, message: Message) -> None:
        world, peer = self.world, self.peer
        if not peer.is_up or peer.incarnation != self.peer_incarnation:
            return
        assert self.request.API_KEY is not None
        response = answer_through_the_wire(self.request, message)
        world.answered(peer, self.node, self.request, response)
        if self in world.calls:
            world.calls.remove(self)
        if not world.is_lost(peer.id, self.node.id):
            world.after(world.delay(), partial(self.end, response), self.node)

    def end(self, outcome: Message | PeerFailure) -> None:
        is_cut = self.world.is_cut(self.peer.id, self.node.id)
        if is_cut and outcome is not PeerFailure.TIMED_OUT:
            return
        if not self.is_over and self.link.is_alive:
            self.is_over = True
            self.then(outcome, self.world.now)


class World:
    """All nodes and one heap of events."""

    node_type: type[Node] = Node

    def __init__(self, seed: int = 1, **settings: Any) -> None:
        self.rng = random.Random(seed)
        self.time_ms = 1000
        self.settings = settings
        self.segment_bytes = 1 << 20
        self.nodes: dict[int, Node] = {}
        self.calls: list[Call] = []
        self.loss = 0.0
        self.delays_ms = (1, 5)
        self.cuts: set[tuple[int, int]] = set()
        self.log: list[str] = []
        self._heap: list[tuple[int, int, Callable[[], None], Node | None]] = []
        self._count = 0
        self.checks: list[Callable[[Node | None], None]] = []
        self.watchers: list[Any] = []
        self.idle_ticks = 0

    @property
    def now(self) -> Now:
        return Now(self.time_ms, WALL_MS + self.time_ms)

    def at(self, to: Address) -> Node:
        """The node there; one that is not up if there is none."""
        found = [node for node in self.nodes.values() if address(node.id) == to]
        return found[0] if found else self.node_type(self, -1)

    # The network.

    def delay(self) -> int:
        return self.rng.randint(*self.delays_ms)

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self.cuts

    def is_lost(self, source: int, target: int) -> bool:
        return self.is_cut(source, target) or self.rng.random() < self.loss

    def cut(self, *sides: list[int]) -> None:
        """Nodes of different sides do not reach each other."""
        self.cuts = {
            (a, b) for one in sides for two in sides if one is not two for a in one for b in two
        }

    def heal(self) -> None:
        self.cuts = set()
        self.loss = 0.0

    def sent(self, node: Node, peer: Node, request: Message) -> None:
        for watcher in self.watchers:
            watcher.sent(node, peer, request)

    def answered(self, peer: Node, node: Node, request: Message, response: Message) -> None:
        for watcher in self.watchers:
            watcher.answered(peer, node, request, response)

    def started(self, node: Node) -> None:
        for watcher in self.watchers:
            watcher.started(node)

    def crashed(self, node: Node) -> None:
        """Connections to it break."""
        for call in [call for call in self.calls if call.peer is node]:
            self.calls.remove(call)
            self.after(self.delay(), partial(call.end, PeerFailure.LOST), call.node)
        for watcher in self.watchers:
            watcher.crashed(node)

    # Time.

    def after(self, delay_ms: int, action: Callable[[], None], node: Node | None = None) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.time_ms + delay_ms, self._count, action, node))

    def run(self, duration_ms: int) -> None:
        end_ms = self.time_ms + duration_ms
        while self.step(end_ms):
            pass
        self.time_ms = end_ms

    def run_until(self, is_so: Callable[[], bool], timeout_ms: int = 30_000) -> None:
        end_ms = self.time_ms + timeout_ms
        while not is_so():
            assert self.step(end_ms), f"did not happen in {timeout_ms} ms"

    def step(self, end_ms: int) -> bool:
        """The next event before a time, or whoever is to be ticked before it."""
        up = [node for node in self.nodes.values() if node.is_up]
        ticked = min(up, key=lambda node: node.raft.next_deadline_ms, default=None)
        tick_ms = end_ms if ticked is None else ticked.raft.next_deadline_ms
        event_ms = self._heap[0][0] if self._heap else end_ms
        if min(tick_ms, event_ms) >= end_ms:
            return False
        if tick_ms < event_ms and ticked is not None:
            self.time_ms = max(self.time_ms, tick_ms)
            ticked.raft.tick(self.now)
            self.idle_ticks = (
                0 if ticked.raft.next_deadline_ms > self.time_ms else self.idle_ticks + 1
            )
            assert self.idle_ticks < 1000, "nothing comes of ticks"
            self.check(ticked)
        else:
            self.time_ms, _, action, node = heapq.heappop(self._heap)
            action()
            self.check(node)
        return True

    def check(self, node: Node | None) -> None:
        for check in self.checks:
            check(node)
        for each in self.nodes.values():
            assert each.heard.failure is None, each.heard.failure

    # Quorums.

    def add(self, node_id: int, *, is_controller: bool = True, **settings: Any) -> Node:
        node = self.nodes[node_id] = self.node_type(self, node_id, is_controller=is_controller)
        node.settings = settings
        return node

    def leader(self) -> Node | None:
        """Who leads in the latest epoch, and has committed something in it."""
        leaders = [n for n in self.nodes.values() if n.is_up and n.raft.is_leader]
        best = max(leaders, key=lambda node: node.raft.epoch, default=None)
        if best is None or ("gained", best.raft.epoch) not in best.heard.news:
            return None
        return best

    def elected(self, timeout_ms: int = 30_000) -> Node:
        self.run_until(lambda: self.leader() is not None, timeout_ms)
        leader = self.leader()
        assert leader is not None
        return leader

    def committed(self, node: Node, text: str) -> int:
        """Append by a leader and wait for the commit; the offset."""
        offset = node.append(text)
        assert offset is not None
        self.run_until(lambda: node.raft.high_watermark > offset)
        return offset


def static_world(
    voter_ids: list[int], seed: int = 1, observers: tuple[int, ...] = (), **settings: Any
) -> World:
    """A quorum by controller.quorum.voters."""
    voters = tuple((one, address(one)) for one in voter_ids)
    world = World(seed, static_voters=voters, **settings)
    for voter_id in voter_ids:
        world.add(voter_id)
    for node_id in observers:
        world.add(node_id, is_controller=False)
    return world


def dynamic_world(
    voter_ids: list[int], seed: int = 1, others: tuple[int, ...] = (), **settings: Any
) -> World:
    """A quorum by --initial-controllers; the others are controllers that do not vote yet."""
    servers = tuple(address(one) for one in voter_ids)
    world = World(seed, bootstrap_servers=servers, **settings)
    for voter_id in voter_ids:
        world.add(voter_id).format(voter_ids)
    for node_id in others:
        world.add(node_id)
    return world


def through_the_wire(request: Message) -> Message:
    version = APIS[request.API_KEY].versions[1] if request.API_KEY is not None else 0
    frame = b"".join(encode_request(request, version, 1, "raft-client"))
    return decode_any(memoryview(frame)[4:], SERVED).message


def answer_through_the_wire(request: Message, answer: Message) -> Message:
    key = request.API_KEY
    assert key is not None
    version = APIS[key].versions[1]
    parts = encode_response(Request(key, version, 1, None, request), answer)
    frame = b"".join(p.read() if isinstance(p, FileSlice) else bytes(p) for p in parts)
    return decode_response(memoryview(frame)[4:], key, version, 1)
