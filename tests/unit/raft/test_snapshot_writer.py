"""Snapshots of the committed image: when one is taken, what it says, and what a full disk does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.metadata.lives import config
from tests.unit.raft.world import PATH, Node, World, dynamic_world, static_world

from tidelog.env import Now
from tidelog.metadata.delta import replay
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from tidelog.metadata.snapshot import SnapshotId, read_snapshot, records_of
from tidelog.metadata.snapshot_loading import load_image
from tidelog.raft.snapshot_writer import SnapshotWriter
from tidelog.slices import Slices, finish
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import KRaftVersionRecord, VotersRecord


class Writing:
    """A node that leads alone, and a writer on it whose work a test does."""

    def __init__(self, world: World, *, bytes_between: int = 1000, interval_ms: int = 0) -> None:
        world.settings["snapshot_bytes_between"] = bytes_between
        world.settings["snapshot_interval_ms"] = interval_ms
        self.world = world
        self.node: Node = world.nodes[1]
        self.node.flushes_at_once = True
        self.raft = self.node.start()
        self.slices: list[Slices[None]] = []
        self.writer = SnapshotWriter(
            self.raft, lambda work, then: self.node.flush(1, work, then), self._run
        )
        self.image = MetadataImage.empty()
        self.offset = 10
        self.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))

    def _run(self, slices: Slices[None], now: Now) -> None:
        self.slices.append(slices)

    def replay(self, record: Message) -> None:
        self.image = replay(self.image, record, self.offset, 1)
        self.offset += 1

    def applied(self, size: int = 400) -> int:
        """How many snapshots have begun so far."""
        self.writer.applied(self.image, size, 5000 + self.offset, self.world.now)
        return len(self.slices)


def test_one_is_taken_after_so_many_bytes():
    writing = Writing(static_world([1]))
    writing.replay(config(2, "t", "retention.ms", "7"))
    assert [writing.applied() for _ in range(3)] == [0, 0, 1]
    assert list(writing.slices[0]) != []
    snapshot_id = SnapshotId(12, 1)
    assert writing.raft.snapshots.ids == [snapshot_id]
    file = writing.raft.snapshots.file(snapshot_id)
    assert list(records_of(finish(load_image(file.read, snapshot_id)))) == list(
        records_of(writing.image)
    )
    assert writing.raft.snapshots.timestamp_ms(snapshot_id) == 5012
    assert not [name for name in writing.node.disk.names(PATH) if name.endswith(".part")]


def test_nothing_new_is_no_reason():
    writing = Writing(static_world([1]), bytes_between=1)
    assert writing.applied() == 1
    finish(writing.slices[0])
    assert writing.applied() == 1, "the same image again"
    writing.replay(config(2, "t", "retention.ms", "7"))
    assert writing.applied() == 2


def test_one_is_taken_after_so_long():
    writing = Writing(static_world([1]), interval_ms=3000)
    assert writing.applied() == 0
    writing.world.time_ms += 2999
    assert writing.applied() == 0
    writing.world.time_ms += 1
    assert writing.applied() == 1


def test_none_is_taken_inside_a_transaction():
    writing = Writing(static_world([1]), bytes_between=1)
    writing.replay(BeginTransactionRecord(name="all or nothing"))
    assert writing.applied() == 0
    writing.replay(EndTransactionRecord())
    assert writing.applied() == 1


def test_one_at_a_time():
    writing = Writing(static_world([1]), bytes_between=1)
    assert writing.applied() == 1
    writing.replay(config(2, "t", "retention.ms", "7"))
    assert writing.applied() == 1
    finish(writing.slices[0])
    assert writing.applied() == 2


def test_a_dynamic_quorum_has_its_voters_in_it():
    writing = Writing(dynamic_world([1]), bytes_between=1)
    writing.applied()
    finish(writing.slices[0])
    (snapshot_id,) = writing.raft.snapshots.ids
    file = writing.raft.snapshots.file(snapshot_id)
    version, voters = read_snapshot(file.read(0, file.size), snapshot_id).quorum_records
    assert isinstance(version, KRaftVersionRecord)
    assert isinstance(voters, VotersRecord)
    assert version.kraft_version == 1
    assert [voter.voter_id for voter in voters.voters] == [1]


def test_equal_ids_have_equal_content():
    contents = []
    for wall_ms in (0, 99):
        writing = Writing(static_world([1]), bytes_between=1)
        writing.world.time_ms += wall_ms
        writing.applied()
        finish(writing.slices[0])
        file = writing.raft.snapshots.file(writing.raft.snapshots.ids[0])
        contents.append(file.read(0, file.size))
    assert contents[0] == contents[1]


@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_full_disk_leaves_nothing_behind(steps_before: int):
    writing = Writing(static_world([1]), bytes_between=1)
    writing.applied()
    for _ in range(steps_before):
        next(writing.slices[0])
    writing.node.disk.capacity_bytes = 0
    finish(writing.slices[0])
    assert writing.raft.snapshots.ids == []
    assert not [name for name in writing.node.disk.names(PATH) if ".checkpoint" in name]
    writing.node.disk.capacity_bytes = 1 << 30
    writing.image = replace(writing.image, offset=writing.image.offset + 1)
    assert writing.applied() == 2
    finish(writing.slices[1])
    assert len(writing.raft.snapshots.ids) == 1


def test_a_newer_one_fetched_meanwhile_wins():
    writing = Writing(static_world([1]), bytes_between=1)
    writing.applied()
    writing.raft.log.truncate_fully_and_start_at(1000)
    finish(writing.slices[0])
    assert writing.raft.snapshots.ids == []
    assert not [name for name in writing.node.disk.names(PATH) if ".checkpoint" in name]
