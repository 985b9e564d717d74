"""Snapshots in the quorum: which are there, how they are fetched, and what is cut behind them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.raft.test_elections import asked, started
from tests.unit.raft.test_replication import Fetches, followers, texts
from tests.unit.raft.world import CLUSTER_ID, PATH, Node, World, dynamic_world, static_world

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.checkpoint import MalformedFile
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.metadata.snapshot import SnapshotId, snapshot_content, snapshot_name
from tidelog.raft.cleaning import CLEAN_INTERVAL_MS
from tidelog.raft.messages import fetch_snapshot_request
from tidelog.raft.snapshots import Snapshots
from tidelog.raft.types import ReplicaKey
from tidelog.raft.validation import only_partition
from tidelog.sim.disk import SimulatedDisk
from tidelog.wire.messages.control_records import KRaftVersionRecord
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest


def take(
    node: Node, *, records: int = 1, timestamp_ms: int = 0, flipped: int | None = None
) -> SnapshotId:
    """A snapshot of all that the node knows to be committed; the disk may have flipped a byte."""
    raft = node.raft
    end = raft.high_watermark
    snapshot_id = SnapshotId(end, raft.log.leader_epochs.epoch_for_offset(end - 1))
    voters = raft.voters_at(end)
    version = KRaftVersionRecord(version=0, kraft_version=voters.kraft_version)
    content = snapshot_content(
        [NoOpRecord()] * records,
        epoch=snapshot_id.epoch,
        last_timestamp_ms=timestamp_ms,
        written_at_ms=timestamp_ms,
        quorum_records=[version, voters.voters.to_record()] if voters.kraft_version else [],
    )
    if flipped is not None:
        content = bytearray(content)
        content[flipped] ^= 1
    part = raft.snapshots.begin(snapshot_id)
    part.append(content)
    part.finish().flush(node.disk)
    raft.snapshots.add(snapshot_id)
    return snapshot_id


def clean(world: World) -> None:
    world.run(CLEAN_INTERVAL_MS + 10)


def grown(world: World, count: int = 30) -> Node:
    """A leader with some records."""
    leader = world.elected()
    for number in range(count):
        world.committed(leader, f"record {number}")
    world.run(100)
    return leader


def test_52_a_newcomer_loads_a_snapshot_in_pieces():
    world = static_world([1, 2, 3], observers=(7,), fetch_snapshot_bytes_max=100)
    newcomer = world.nodes.pop(7)
    started(world)
    leader = grown(world)
    snapshot_id = take(leader, records=20)
    world.committed(leader, "after the snapshot")
    pieces: list[Any] = []

    class Pieces(Fetches):
        def answered(self, peer: Any, node: Any, request: Any, response: Any) -> None:
            if isinstance(request, FetchSnapshotRequest):
                pieces.append(only_partition(response))

    Pieces(world)
    world.nodes[7] = newcomer
    newcomer.start()
    world.run(1000)
    raft = newcomer.raft
    assert ("snapshot", snapshot_id) in newcomer.heard.news
    assert (raft.log.log_start_offset, raft.log.log_end_offset) == (31, 32)
    assert raft.high_watermark == leader.raft.high_watermark
    assert raft.snapshots.ids == [snapshot_id]
    assert len(pieces) > 3
    assert {piece.size for piece in pieces} == {leader.raft.snapshots.file(snapshot_id).size}
    assert [piece.position for piece in pieces] == [100 * n for n in range(len(pieces))]
    content = newcomer.disk.crash().read_file(f"{PATH}/{snapshot_name(*snapshot_id)}")
    assert content == leader.disk.read_file(f"{PATH}/{snapshot_name(*snapshot_id)}")
    newcomer.crash(power=True)
    newcomer.start()
    assert newcomer.raft.high_watermark == 31
    world.run(1000)
    assert newcomer.raft.log.log_end_offset == leader.raft.log.log_end_offset


def test_52_a_snapshot_that_goes_midway_is_replaced_by_a_newer_one():
    world = static_world([1, 2, 3], observers=(7,), fetch_snapshot_bytes_max=60, retention_bytes=1)
    newcomer = world.nodes.pop(7)
    started(world)
    leader = grown(world)
    first = take(leader, records=50)
    world.nodes[7] = newcomer
    newcomer.start()
    download = newcomer.raft._following.download
    world.run_until(lambda: download._part is not None and download._part.size > 200)
    assert download._part is not None
    assert download._part.id == first
    world.committed(leader, "more")
    second = take(leader)
    leader.raft._cleaning._next_ms = world.time_ms
    world.run(2000)
    assert leader.raft.snapshots.ids == [second]
    assert newcomer.raft.snapshots.ids == [second]
    assert newcomer.raft.high_watermark == leader.raft.high_watermark
    assert not [name for name in newcomer.disk.names(PATH) if name.endswith(".part")]


def test_a_voter_of_a_dynamic_quorum_learns_the_voters_from_a_snapshot():
    world = started(dynamic_world([1, 2, 3], others=()))
    leader = grown(world)
    take(leader)
    newcomer = world.add(11)
    newcomer.start()
    assert newcomer.raft.voters.ids == ()
    world.run(1000)
    assert newcomer.raft.voters == leader.raft.voters
    assert newcomer.raft.kraft_version == 1
    newcomer.crash(power=True)
    newcomer.start()
    assert newcomer.raft.voters == leader.raft.voters


def test_a_download_ends_with_the_leader():
    world = static_world([1, 2, 3], observers=(7,), fetch_snapshot_bytes_max=20)
    newcomer = world.nodes.pop(7)
    started(world)
    leader = grown(world)
    for node in world.nodes.values():
        take(node, records=40)
    world.nodes[7] = newcomer
    newcomer.start()
    world.run_until(lambda: newcomer.raft._following.download.is_busy)
    world.run(20)
    leader.crash(power=False)
    world.run(3000)
    assert newcomer.raft.high_watermark == world.elected().raft.high_watermark
    assert len(newcomer.raft.snapshots.ids) == 1


def test_the_log_is_cut_behind_the_second_snapshot():
    world = static_world([1, 2, 3], retention_bytes=1)
    world.segment_bytes = 300
    started(world)
    leader = grown(world)
    first = take(leader)
    clean(world)
    assert leader.raft.log.log_start_offset == 0, "the only one stays, and the log before it"
    segments = len(leader.raft.log.segments)
    assert segments > 5
    for number in range(10):
        world.committed(leader, f"more {number}")
    second = take(leader)
    clean(world)
    raft = leader.raft
    assert raft.snapshots.ids == [second]
    assert raft.log.log_start_offset == second.end_offset
    assert len(raft.log.segments) == 1
    assert not leader.disk.exists(f"{PATH}/{snapshot_name(*first)}")
    assert not [name for name in leader.disk.names(PATH) if name.endswith(".deleted")]
    leader.crash(power=True)
    leader.start()
    assert leader.raft.log.log_start_offset == second.end_offset


def test_a_new_snapshot_has_the_log_cut_at_once():
    world = started(static_world([1, 2, 3], retention_bytes=1))
    leader = grown(world, 3)
    take(leader)
    world.committed(leader, "more")
    second = take(leader)
    world.run(1000)
    assert leader.raft.snapshots.ids == [second]
    assert leader.raft.log.log_start_offset == second.end_offset


@pytest.mark.parametrize(("age_ms", "is_cut"), [(-60_000, False), (60_000, True)])
def test_the_log_is_cut_by_age(age_ms: int, is_cut: bool):
    world = started(static_world([1], retention_bytes=-1, retention_ms=1000_000))
    leader = grown(world, 3)
    then_ms = world.now.wall_ms - 1000_000 - age_ms
    take(leader, timestamp_ms=then_ms)
    world.committed(leader, "more")
    second = take(leader, timestamp_ms=then_ms)
    clean(world)
    assert (leader.raft.log.log_start_offset == second.end_offset) is is_cut


def test_a_follower_behind_the_logs_start_loads_a_snapshot():
    world = static_world([1, 2, 3], retention_bytes=1)
    world.segment_bytes = 300
    started(world)
    leader = grown(world, 5)
    away = followers(world, leader)[0]
    away.crash(power=False)
    for number in range(20):
        world.committed(leader, f"missed {number}")
    take(leader)
    world.committed(leader, "more")
    second = take(leader)
    clean(world)
    assert leader.raft.log.log_start_offset == second.end_offset
    away.start()
    assert away.raft.log.log_end_offset < second.end_offset
    world.run(2000)
    assert away.raft.log.log_start_offset == second.end_offset
    assert texts(away) == texts(leader)
    assert ("snapshot", second) in away.heard.news


@pytest.mark.parametrize("flipped", [16, 62, -1, 200])
def test_a_damaged_snapshot_takes_no_logs_place(flipped: int):
    """The header's magic, its record, the footer, or a batch between them."""
    world = started(static_world([1, 2, 3], retention_bytes=1))
    leader = grown(world)
    behind = followers(world, leader)[0]
    behind.crash(power=False)
    world.committed(leader, "more")
    take(leader)
    world.committed(leader, "and more")
    damaged = take(leader, records=20, flipped=flipped)
    clean(world)
    assert leader.raft.log.log_start_offset == damaged.end_offset
    behind.start()
    end_offset = behind.raft.log.log_end_offset
    world.run(4000)
    assert (behind.heard.failure, behind.raft.snapshots.ids) == (None, [])
    assert behind.raft.log.log_end_offset == end_offset, "it has what it had"
    assert behind.raft.role_name == "follower", "and calls no election"
    world.committed(leader, "another")
    sound = take(leader)
    world.run(20_000)
    assert behind.raft.snapshots.ids == [sound]
    assert behind.raft.log.log_end_offset == leader.raft.log.log_end_offset


def test_pieces_are_checked():
    world = started(static_world([1, 2, 3]))
    leader = grown(world, 5)
    snapshot_id = take(leader)
    epoch, size = leader.raft.epoch, leader.raft.snapshots.file(snapshot_id).size

    def error(
        epoch: int = epoch,
        one: SnapshotId = snapshot_id,
        position: int = 0,
        cluster_id: str = CLUSTER_ID,
        node: Node = leader,
    ) -> int:
        key = ReplicaKey(9)
        request = fetch_snapshot_request(cluster_id, key, epoch, one, position, 1 << 20)
        answer = asked(node, request)
        partition = only_partition(answer)
        return answer.error_code or partition.error_code

    codes = ErrorCode
    assert error() == 0
    assert error(position=size - 1) == 0
    assert error(position=size) == codes.POSITION_OUT_OF_RANGE
    assert error(position=-1) == codes.POSITION_OUT_OF_RANGE
    assert error(one=SnapshotId(1, 1)) == codes.SNAPSHOT_NOT_FOUND
    assert error(one=SnapshotId(0, 0)) == codes.SNAPSHOT_NOT_FOUND
    assert error(epoch=epoch - 1) == codes.FENCED_LEADER_EPOCH
    assert error(epoch=epoch + 1) == codes.UNKNOWN_LEADER_EPOCH
    assert error(cluster_id="other") == codes.INCONSISTENT_CLUSTER_ID
    follower = followers(world, leader)[0]
    assert error(node=follower) == codes.NOT_LEADER_OR_FOLLOWER
    whole = fetch_snapshot_request(CLUSTER_ID, ReplicaKey(9), epoch, snapshot_id, 0, 1 << 20)
    assert len(only_partition(asked(leader, whole)).unaligned_records) == size
    empty = asked(leader, whole.replace(topics=()))
    assert empty.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION


# The directory.


def content(records: int = 1) -> bytes:
    return snapshot_content([NoOpRecord()] * records, epoch=1, last_timestamp_ms=7, written_at_ms=8)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("d")
    return disk


def test_what_a_directory_holds(disk: SimulatedDisk):
    disk.replace("d/00000000000000000000-0000000000.checkpoint", content())
    disk.replace("d/00000000000000000009-0000000001.checkpoint", content())
    disk.replace("d/00000000000000000005-0000000001.checkpoint", content())
    disk.replace("d/00000000000000000020-0000000001.checkpoint.1.part", content())
    disk.replace("d/00000000000000000004-0000000001.checkpoint.deleted", content())
    disk.replace("d/00000000000000000000.log", b"")
    disk.replace("d/leader-epoch-checkpoint", b"")
    snapshots = Snapshots(disk, "d")
    assert snapshots.ids == [(5, 1), (9, 1)]
    assert (snapshots.earliest, snapshots.latest) == ((5, 1), (9, 1))
    assert SnapshotId(5, 1) in snapshots
    assert SnapshotId(0, 0) not in snapshots
    assert SnapshotId(5, 2) not in snapshots
    assert snapshots.timestamp_ms(SnapshotId(5, 1)) == 7
    assert disk.names("d") == [
        "00000000000000000000-0000000000.checkpoint",
        "00000000000000000000.log",
        "00000000000000000005-0000000001.checkpoint",
        "00000000000000000009-0000000001.checkpoint",
        "leader-epoch-checkpoint",
    ]


@pytest.mark.parametrize("damage", [content()[:-1], content()[:-80], b"", b"?" * 99])
def test_a_damaged_latest_one_is_passed_over(disk: SimulatedDisk, damage: bytes):
    disk.replace("d/00000000000000000005-0000000001.checkpoint", content())
    disk.replace("d/00000000000000000009-0000000001.checkpoint", damage)
    assert Snapshots(disk, "d").ids == [(5, 1)]


def test_a_log_whose_beginning_is_nowhere_is_refused():
    world = static_world([1], retention_bytes=1)
    world.segment_bytes = 300
    started(world)
    leader = grown(world)
    take(leader)
    world.committed(leader, "more")
    second = take(leader)
    clean(world)
    leader.crash(power=False)
    leader.disk.remove(f"{PATH}/{snapshot_name(*second)}")
    with pytest.raises(MalformedFile, match="no snapshot has what was before"):
        leader.start()


def test_a_snapshot_that_a_crash_left_without_its_log_begins_one():
    world = started(static_world([1]))
    leader = grown(world, 5)
    leader.crash(power=False)
    path = f"{PATH}/{snapshot_name(100, 3)}"
    leader.disk.replace(path, content())
    world.checks.clear()
    world.watchers.clear()
    leader.start()
    raft = leader.raft
    assert (raft.log.log_start_offset, raft.log.log_end_offset) == (100, 100)
    world.run(20)
    assert raft.epoch == 4, "behind the snapshot's"
    assert raft.high_watermark == 101


def test_a_later_epoch_of_a_snapshot_says_that_the_log_is_another():
    world = started(static_world([1]))
    leader = grown(world, 20)
    leader.crash(power=False)
    leader.disk.replace(f"{PATH}/{snapshot_name(10, 3)}", content())
    world.checks.clear()
    world.watchers.clear()
    leader.start()
    assert leader.raft.log.log_end_offset == 10


def test_older_snapshots_than_the_log_go_at_the_start():
    world = static_world([1], retention_bytes=1)
    world.segment_bytes = 300
    started(world)
    leader = grown(world, 5)
    first = take(leader)
    for number in range(30):
        world.committed(leader, f"more {number}")
    take(leader)
    stale = leader.disk.read_file(f"{PATH}/{snapshot_name(*first)}")
    clean(world)
    leader.crash(power=False)
    assert stale is not None
    leader.disk.replace(f"{PATH}/{snapshot_name(*first)}", stale)
    leader.start()
    assert len(leader.raft.snapshots.ids) == 1
    assert not leader.disk.exists(f"{PATH}/{snapshot_name(*first)}")


def test_a_full_disk_puts_a_download_off():
    world = static_world([1, 2, 3], observers=(7,))
    newcomer = world.nodes.pop(7)
    started(world)
    leader = grown(world)
    take(leader)
    world.nodes[7] = newcomer
    newcomer.start()
    newcomer.disk.capacity_bytes = sum(
        newcomer.disk.size(f"{PATH}/{name}") or 0 for name in newcomer.disk.names(PATH)
    )
    world.run(3000)
    assert newcomer.raft.snapshots.ids == []
    newcomer.disk.capacity_bytes = 1 << 30
    world.run(3000)
    assert len(newcomer.raft.snapshots.ids) == 1
    assert newcomer.raft.high_watermark == leader.raft.high_watermark


def test_a_snapshot_that_cannot_be_written_is_the_end():
    world = static_world([1, 2, 3], observers=(7,))
    newcomer = world.nodes.pop(7)
    started(world)
    leader = grown(world)
    take(leader)
    world.nodes[7] = newcomer
    newcomer.start()
    world.run_until(lambda: newcomer.raft._following.download._is_finishing)
    world.checks.clear()
    _, then = newcomer.pending.pop()
    then(OSError(5, "broken"), Now(world.time_ms, 0))
    assert newcomer.heard.failure is not None
