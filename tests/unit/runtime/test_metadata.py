"""The metadata on the nodes of a quorum: one image everywhere, of what is committed and nothing
else; written by who is active, kept in snapshots."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from tests.unit.metadata.lives import config
from tests.unit.raft.invariants import Invariants
from tests.unit.raft.world import PATH, Heard, Node, World, address

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import Flush, Flushed
from tidelog.log.log import Log
from tidelog.log.results import Appended
from tidelog.metadata.batches import control_batch
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from tidelog.metadata.snapshot import records_of
from tidelog.raft.types import RaftListener
from tidelog.runtime.metadata import Metadata
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices, finish
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import KRaftVersionRecord

LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)


class Role:
    """Acts upon the metadata, as a broker does: it keeps what it was shown."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.shown: dict[str, str] = {}
        self.reloads = 0
        self.activations = 0
        self.is_active = False

    def apply(self, records: Sequence[Message], now: Now) -> Slices[None]:
        yield 1
        self.shown = dict(self.metadata.image.topic_configs("t"))

    def reload(self, now: Now) -> Slices[None]:
        self.reloads += 1
        yield from self.apply((), now)

    def caught_up(self, now: Now) -> None: ...
    def leader_changed(self, now: Now) -> None: ...

    def activate(self, now: Now) -> None:
        assert not self.is_active
        self.is_active = True
        self.activations += 1

    def deactivate(self, now: Now) -> None:
        self.is_active = False


class Told:
    """The metadata, and a test that wants to know what it is told."""

    def __init__(self, heard: Heard, metadata: Metadata) -> None:
        self.heard, self.metadata = heard, metadata

    def __getattr__(self, name: str) -> Any:
        def both(*told: Any) -> None:
            getattr(self.heard, name)(*told)
            getattr(self.metadata, name)(*told)

        return both


class MetadataNode(Node):
    """A node of the quorum with what lies on top."""

    metadata: Metadata
    runtime: Runtime
    role: Role
    checked: MetadataImage | None = None

    def listener(self, log: Log) -> RaftListener:
        self.runtime = Runtime(random.Random(1))
        self.metadata = Metadata(self.runtime, log)
        self.role = Role(self.metadata)
        self.metadata.acted_upon_by(self.role)
        self.metadata.controller = self.role
        told: Any = Told(self.heard, self.metadata)
        return told  # type: ignore[no-any-return]

    def made(self) -> None:
        self.metadata.raft = self.raft
        self.metadata.begin()

    def work(self, now: Now) -> None:
        """A step's worth of long work, and what it asks of the disk."""
        self.runtime.jobs.run(now)
        effects, self.runtime.effects[:] = list(self.runtime.effects), []
        for effect in effects:
            assert isinstance(effect, Flush)
            self.flush(self.incarnation, effect.work, partial(self._flushed, effect.token))

    def _flushed(self, token: int, error: Any, now: Now) -> None:
        self.runtime.flushed(Flushed(token, error), now)

    def write(self, *records: Message) -> list[ErrorCode]:
        """Append as the active controller; what becomes of it is in the list later."""
        outcomes: list[ErrorCode] = []
        then = lambda error, now: outcomes.append(error)  # noqa: E731
        error = finish(self.metadata.append(records, self.world.now, then))
        return outcomes if error is ErrorCode.NONE else [error]


class MetadataWorld(World):
    node_type = MetadataNode
    nodes: dict[int, MetadataNode]  # type: ignore[assignment]

    def __init__(self, voter_ids: Sequence[int], seed: int = 1, **settings: Any) -> None:
        voters = tuple((one, address(one)) for one in voter_ids)
        super().__init__(seed, static_voters=voters, **settings)
        for voter_id in voter_ids:
            self.add(voter_id)
        self.invariants = Invariants(self)
        self.checks.append(self.check_images)
        self.published: dict[int, list[Message]] = {}
        """What all nodes must show at an offset."""

    def check_images(self, node: Node | None) -> None:
        for one in self.nodes.values():
            if not one.is_up or (node is not None and one is not node):
                continue
            one.work(self.now)
            metadata = one.metadata
            assert metadata.committed_offset <= one.raft.high_watermark
            if metadata.committed is one.checked:
                continue
            one.checked = metadata.committed
            shown = list(records_of(metadata.image))
            expected = self.published.setdefault(metadata.committed_offset, shown)
            assert shown == expected, f"{one} at {metadata.committed_offset}"

    def active(self) -> MetadataNode:
        self.run_until(lambda: any(n.is_up and n.role.is_active for n in self.nodes.values()))
        return next(n for n in self.nodes.values() if n.is_up and n.role.is_active)

    def begun(self) -> MetadataNode:
        """All nodes run, and the first record is committed."""
        for node in self.nodes.values():
            node.start()
        active = self.active()
        outcomes = active.write(LEVEL)
        self.run_until(lambda: bool(outcomes))
        return active

    def settled(self, timeout_ms: int = 20_000) -> None:
        """Until all have acted upon all there is."""

        def is_so() -> bool:
            ends = {n.raft.log.log_end_offset for n in self.nodes.values() if n.is_up}
            done = {n.metadata.committed_offset for n in self.nodes.values() if n.is_up}
            return len(ends) == 1 and ends == done

        self.run_until(is_so, timeout_ms)

    def shown(self) -> Iterator[dict[str, str]]:
        return (node.role.shown for node in self.nodes.values() if node.is_up)


def named(name: str, value: str | None = "1") -> Message:
    return config(2, "t", name, value)


def test_what_the_active_controller_writes_is_acted_upon_everywhere():
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    outcomes = active.write(named("a"), named("b"))
    assert outcomes == []
    assert "a" not in active.role.shown
    assert active.metadata.latest.topic_configs("t") == {"a": "1", "b": "1"}
    world.run_until(lambda: bool(outcomes))
    assert outcomes == [ErrorCode.NONE]
    assert active.role.shown == {"a": "1", "b": "1"}, "before it is told"
    world.settled()
    assert list(world.shown()) == [{"a": "1", "b": "1"}] * 3


def test_nobody_else_writes():
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    other = next(node for node in world.nodes.values() if node is not active)
    assert other.write(named("a")) == [ErrorCode.NOT_CONTROLLER]


def test_a_batch_that_is_too_large_is_refused_and_leaves_nothing():
    world = MetadataWorld([1])
    active = world.begun()
    end_offset = active.metadata.log.log_end_offset
    much = [named(f"n{number}", "x" * 32767) for number in range(257)]
    assert active.write(*much) == [ErrorCode.RECORD_LIST_TOO_LARGE]
    assert active.metadata.log.log_end_offset == end_offset
    assert active.metadata.latest.topic_configs("t") == {}
    outcomes = active.write(*much[2:])
    world.run_until(lambda: bool(outcomes))
    assert outcomes == [ErrorCode.NONE]


def test_nothing_to_write_waits_for_what_was_written_before():
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    first, second = active.write(named("a")), active.write()
    assert second == []
    world.run_until(lambda: bool(second))
    assert first == [ErrorCode.NONE]


def test_44_what_was_not_committed_is_forgotten_with_the_leadership():
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    world.settled()
    world.cut([active.id], [one for one in world.nodes if one != active.id])
    outcomes = active.write(named("lost"))
    world.run_until(lambda: bool(outcomes))
    assert outcomes == [ErrorCode.NOT_CONTROLLER]
    assert not active.role.is_active
    assert active.metadata.latest is active.metadata.committed
    world.heal()
    successor = world.active()
    assert successor is not active
    kept = successor.write(named("kept"))
    world.run_until(lambda: bool(kept))
    world.settled()
    assert list(world.shown()) == [{"kept": "1"}] * 3


def test_who_loses_the_leadership_while_it_appends_is_told_once(monkeypatch: pytest.MonkeyPatch):
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    raft = active.raft

    def append(batch: bytearray, now: Now, *, is_awaited: bool) -> ErrorCode:
        raft.resign(now)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    monkeypatch.setattr(raft, "append", append)
    assert active.write(named("a")) == [ErrorCode.NOT_CONTROLLER]
    assert active.metadata.latest is active.metadata.committed


@pytest.mark.parametrize("is_awaited", [True, False])
def test_the_quorum_is_told_whether_a_record_is_awaited(
    monkeypatch: pytest.MonkeyPatch, is_awaited: bool
):
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    told: list[bool] = []
    append = active.raft.append

    def noted(batch: bytearray, now: Now, *, is_awaited: bool) -> Appended | ErrorCode:
        told.append(is_awaited)
        return append(batch, now, is_awaited=is_awaited)

    monkeypatch.setattr(active.raft, "append", noted)
    writing = active.metadata.append([named("a")], world.now, is_awaited=is_awaited)
    next(writing)
    # Another record comes first, so that it begins anew.
    control = control_batch(
        [KRaftVersionRecord(version=0, kraft_version=0)],
        base_offset=active.metadata.log.log_end_offset,
        leader_epoch=active.raft.epoch,
        timestamp_ms=0,
    )
    append(control, world.now)
    with pytest.raises(StopIteration) as ended:
        while True:
            next(writing)
    assert ended.value.value is ErrorCode.NONE
    assert told == [is_awaited]


def test_45_a_transaction_is_shown_when_it_ends_or_never():
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    active.write(BeginTransactionRecord(name="t"), named("a"))
    world.run(300)
    assert list(world.shown()) == [{}] * 3
    active.write(named("b"))
    active.write(AbortTransactionRecord())
    active.write(BeginTransactionRecord(name="t"), named("c"))
    world.run(300)
    active.write(named("d"), EndTransactionRecord())
    world.settled()
    assert list(world.shown()) == [{"c": "1", "d": "1"}] * 3


def test_a_restart_shows_the_same():
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    active.write(named("a"))
    world.settled()
    for node in world.nodes.values():
        node.crash(power=True)
    for node in world.nodes.values():
        node.start()
    world.active()
    world.settled()
    assert list(world.shown()) == [{"a": "1"}] * 3


def test_snapshots_take_the_place_of_the_log():
    world = MetadataWorld([1, 2, 3], snapshot_bytes_between=1000, retention_bytes=2000)
    world.segment_bytes = 500
    active = world.begun()
    away = next(node for node in world.nodes.values() if node is not active)
    away.crash(power=False)
    for number in range(200):
        outcomes = active.write(named(f"name-{number % 10}", str(number)))
        world.run_until(lambda outcomes=outcomes: bool(outcomes))
    world.run(61_000)
    log = active.raft.log
    assert log.log_start_offset > 100
    assert len(active.raft.snapshots.ids) >= 1
    away.start()
    world.settled()
    assert away.role.reloads == 1
    assert len(set(map(str, world.shown()))) == 1
    assert away.role.shown["name-9"] == "199"
    away.crash(power=True)
    away.start()
    world.settled()
    assert away.role.shown["name-9"] == "199"


def test_a_snapshot_by_time():
    world = MetadataWorld([1], snapshot_interval_ms=5000)
    active = world.begun()
    for _ in range(9):
        active.write(NoOpRecord())
        world.run(500)
    assert active.raft.snapshots.ids == []
    for _ in range(6):
        active.write(NoOpRecord())
        world.run(500)
    assert len(active.raft.snapshots.ids) == 1


def test_a_decision_is_made_again_where_the_voters_change_meanwhile():
    world = MetadataWorld([1, 2, 3])
    active = world.begun()
    world.run(4000)
    outcomes: list[ErrorCode] = []
    slices = active.metadata.append(
        [named("a"), named("b")], world.now, lambda error, now: outcomes.append(error)
    )
    next(slices)
    assert active.raft.upgrade_kraft_version(1, world.now) is ErrorCode.NONE
    assert finish(slices) is ErrorCode.NONE
    world.run_until(lambda: bool(outcomes))
    world.settled()
    assert list(world.shown()) == [{"a": "1", "b": "1"}] * 3
    assert active.metadata.kraft_version == 1


@pytest.mark.parametrize("seed", range(6))
def test_images_agree_whatever_happens(seed: int):
    """Kills, power failures and partitions; writes, transactions and snapshots."""
    rng = random.Random(seed)
    world = MetadataWorld(
        [1, 2, 3],
        seed,
        snapshot_bytes_between=rng.choice([400, 5000]),
        retention_bytes=rng.choice([800, 1 << 30]),
    )
    world.segment_bytes = rng.choice([500, 1 << 20])
    counts: Counter[str] = Counter()
    outcomes: list[tuple[str, list[ErrorCode]]] = []

    def write() -> None:
        for node in world.nodes.values():
            if node.is_up and node.role.is_active:
                name = f"n{len(outcomes)}"
                records = [named(name), named(f"same-{rng.randrange(5)}", str(len(outcomes)))]
                if node.metadata.latest.before_transaction is not None:
                    end = rng.choice([EndTransactionRecord(), AbortTransactionRecord()])
                    node.write(end)
                elif rng.random() < 0.2:
                    node.write(BeginTransactionRecord(name="t"), *records)
                else:
                    outcomes.append((name, node.write(*records)))
        world.after(rng.randint(1, 100), write)

    def fault() -> None:
        node = rng.choice(list(world.nodes.values()))
        if rng.random() < 0.5 and node.is_up:
            node.crash(power=rng.random() < 0.5)
            world.after(rng.randint(1, 1500), node.start, node)
            counts["crash"] += 1
        else:
            ids = list(world.nodes)
            rng.shuffle(ids)
            world.cut(ids[:1], ids[1:] if rng.random() < 0.5 else [])
        world.after(rng.randint(100, 1500), fault)

    world.begun()
    world.after(1, write)
    world.after(500, fault)
    world.run(15_000)
    world.heal()
    world._heap = [event for event in world._heap if event[2] not in (write, fault)]
    world.run(5000)
    for node in world.nodes.values():
        if not node.is_up:
            node.start()
    active = world.active()
    if active.metadata.latest.before_transaction is not None:
        active.write(AbortTransactionRecord())
    world.settled()
    image: MetadataImage = active.metadata.image
    kept = [name for name, outcome in outcomes if outcome == [ErrorCode.NONE]]
    assert len(kept) > 20
    assert set(kept) <= set(image.topic_configs("t")), "what was acknowledged is there"
    assert counts["crash"] > 2
    world.run(20_000)  # a step does little of a snapshot
    assert not [
        name for node in world.nodes.values() for name in node.disk.names(PATH) if ".part" in name
    ]
