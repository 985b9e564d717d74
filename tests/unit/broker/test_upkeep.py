"""Retention and checkpoints by virtual time."""

from __future__ import annotations

from collections import Counter

from tests.unit.node_client import Cluster

from tidelog.events import Flush
from tidelog.log.results import Unflushed

HOUR_MS = 3_600_000


def segment_files(cluster: Cluster, suffix: str = ".log") -> list[str]:
    names = cluster.shell.disk.names("data/t-0")
    return [name for name in names if name.endswith(suffix)]


def fill(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.produce("t", b"x" * 500_000 + str(number).encode())


def test_old_segments_go_by_time_and_their_files_a_minute_later() -> None:
    cluster = Cluster()
    cluster.create_topic("t", retention_ms=str(HOUR_MS), segment_bytes=str(1 << 20))
    fill(cluster, 6)
    assert len(segment_files(cluster)) == 3
    cluster.shell.advance(HOUR_MS + 31_000)
    partition = cluster.broker.hosting.by_name["t", 0]
    assert partition.log.log_start_offset == partition.high_watermark == 6
    assert len(segment_files(cluster)) == 1
    assert segment_files(cluster, ".deleted")
    cluster.shell.advance(60_001)
    assert segment_files(cluster, ".deleted") == []
    assert cluster.fetch("t", 0).error_code == 1
    assert cluster.produce("t", b"goes on").base_offset == 6


def test_size_retention_keeps_at_least_its_limit() -> None:
    cluster = Cluster()
    cluster.create_topic("t", retention_bytes=str(1_100_000), segment_bytes=str(1 << 20))
    fill(cluster, 8)
    cluster.shell.advance(31_000)
    log = cluster.broker.hosting.by_name["t", 0].log
    assert 1_100_000 <= log.size_bytes < 1_100_000 + (1 << 20)
    assert log.log_start_offset == 4


def test_records_deleted_by_request_leave_the_disk_too() -> None:
    cluster = Cluster()
    cluster.create_topic("t", segment_bytes=str(1 << 20))
    fill(cluster, 6)
    cluster.broker.hosting.by_name["t", 0].advance_log_start_offset(5)
    cluster.shell.advance(31_000)
    assert segment_files(cluster) == ["00000000000000000004.log"]


def test_checkpoints_are_written_by_the_clock() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    cluster.produce("t", b"a", b"b")
    cluster.shell.advance(5_001)
    assert cluster.shell.disk.read_file("data/replication-offset-checkpoint") == b"0\n1\nt 0 2\n"
    cluster.shell.advance(60_000)
    recovery_points = cluster.shell.disk.read_file("data/recovery-point-offset-checkpoint")
    assert recovery_points is not None
    assert b"t 0 " in recovery_points


def test_a_checkpoint_has_one_writer_however_slow_the_disk() -> None:
    often = {
        "replica.high.watermark.checkpoint.interval.ms": "10",
        "log.flush.offset.checkpoint.interval.ms": "10",
        "log.flush.start.offset.checkpoint.interval.ms": "10",
    }
    cluster = Cluster(**often)
    cluster.shell.flush_ms = (50, 50)
    cluster.shell.effects.clear()
    cluster.shell.advance(1_000)
    flushed = [e.work for e in cluster.shell.effects if isinstance(e, Flush)]
    written = [w.replacements for work in flushed for w in work if isinstance(w, Unflushed)]
    files = Counter(path for replaced in written for path, _ in replaced)
    assert sorted(files) == [
        "data/log-start-offset-checkpoint",
        "data/recovery-point-offset-checkpoint",
        "data/replication-offset-checkpoint",
    ]
    assert all(15 < count <= 20 for count in files.values()), files
