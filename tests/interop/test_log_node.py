"""Data directories change hands: ours opens what an Apache node wrote, and the other way."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.apache import ApacheNode
from tests.interop.suite import SECONDS_MAX
from tests.interop.test_log_apache import NOW, WALL_MS
from tests.unit.log.log_samples import built
from tidelog.disk import RealDisk
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.log_dir import LogDir
from tidelog.log.recovery import load
from tidelog.wire.batch import RecordBatch, read_batch
from tidelog.wire.batch_reader import read_records
from tidelog.wire.compression import Compression

pytestmark = pytest.mark.interop

RECORDS = 3000
SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "500"}
Rows = list[tuple[int, bytes | None, bytes | None]]


def create(bootstrap: str, topic: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, num_partitions=1, replication_factor=1, config=SMALL | configs)
    for future in admin.create_topics([wanted]).values():
        future.result()


def produce(bootstrap: str, topic: str, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, **settings})
    for i in range(RECORDS):
        value = None if i % 50 == 0 else b"%d " % i * (i % 400)
        producer.produce(topic, value, b"key-%d" % i, headers={"h": b"%d" % i})
        if i % 100 == 0:
            producer.flush()
    assert producer.flush(SECONDS_MAX) == 0


def consume(bootstrap: str, topic: str, start: int, count: int) -> Rows:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "x", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, start)])
    rows: Rows = []
    while len(rows) < count:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"{len(rows)} of {count} records came"
        assert message.error() is None, message.error()
        assert message.timestamp()[0] == TIMESTAMP_CREATE_TIME
        rows.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return rows


def rows_of(log: Log) -> Rows:
    rows: Rows = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, log.log_end_offset, 1 << 20)
        assert piece is not None
        view, position = memoryview(piece.read()), 0
        while position < len(view):
            batch = read_batch(view, position, len(view))
            assert isinstance(batch, RecordBatch)
            assert batch.crc_is_right()
            if not batch.is_control:
                rows += [(r.offset, r.key, r.value) for r in read_records(batch)]
            position, offset = batch.end_position, batch.next_offset
    return rows


def open_copy(node: ApacheNode, folder: Path, *, was_clean: bool) -> LogDir:
    shutil.copytree(node.log_dir, folder)
    directory = LogDir(RealDisk(), str(folder))
    directory.open()
    assert directory.was_clean is was_clean
    directory.load_all(lambda topic: LogConfig(segment_bytes=1 << 20), NOW)
    assert directory.damaged == {}
    return directory


def test_ours_opens_what_apache_wrote(tmp_path):
    """After a clean stop, and after kill -9; plain, compressed, idempotent, deleted from."""
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "zstd": {"compression.type": "zstd"},
        "idempotent": {"enable.idempotence": True, "compression.type": "lz4"},
    }
    with ApacheNode(tmp_path / "apache") as node:
        expected = {}
        for topic, settings in kinds.items():
            create(node.bootstrap_servers, topic)
            produce(node.bootstrap_servers, topic, **settings)
            expected[topic] = consume(node.bootstrap_servers, topic, 0, RECORDS)
        node.kill()
        killed = open_copy(node, tmp_path / "killed", was_clean=False)
        node.start()
        node.stop()
        stopped = open_copy(node, tmp_path / "stopped", was_clean=True)
    for directory in (killed, stopped):
        for topic in kinds:
            log = directory.logs[topic, 0]
            assert rows_of(log) == expected[topic]
            assert len(log.producers) == (topic == "idempotent")
            assert log.leader_epochs.latest >= 0
        assert directory.read_meta_properties() is not None
        assert directory.logs["plain", 0].segments[0].size > 500_000
        metadata = directory.load_metadata_log(LogConfig(), NOW)
        assert metadata.log_end_offset > 10
    high_watermarks = {topic: stopped.high_watermarks[topic, 0] for topic in kinds}
    assert high_watermarks == dict.fromkeys(kinds, RECORDS)


@pytest.mark.parametrize("trusts_indexes", [True, False])
def test_apache_serves_a_partition_that_ours_wrote(tmp_path, trusts_indexes):
    """With our indexes, epochs and snapshots believed, and with all but the batches rebuilt."""
    with ApacheNode(tmp_path / "apache") as node:
        create(node.bootstrap_servers, "tides")
        node.stop()
        partition = node.log_dir / "tides-0"
        metadata = (partition / "partition.metadata").read_bytes()
        shutil.rmtree(partition)
        expected = write_partition(node.log_dir, metadata, trusts_indexes)
        node.start()
        end = expected[-1][0] + 1
        for start in (0, 1, 777, end - 5):
            wanted = [row for row in expected if row[0] >= start]
            assert consume(node.bootstrap_servers, "tides", start, len(wanted)) == wanted
        consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "x"})
        for offset in (5, 500, 1499):
            at = TopicPartition("tides", 0, WALL_MS - 10_000_000 + offset)
            assert consumer.offsets_for_times([at], timeout=SECONDS_MAX)[0].offset == offset
        place = TopicPartition("tides", 0)
        assert consumer.get_watermark_offsets(place, timeout=SECONDS_MAX)[1] == end
        consumer.close()
        names = [path.name for path in node.log_dir.iterdir()]
        assert not [name for name in names if name.endswith("-stray")]


def write_partition(log_dir: Path, metadata: bytes, trusts_indexes: bool) -> Rows:
    disk = RealDisk()
    path = f"{log_dir}/tides-0"
    disk.make_directory(path)
    disk.replace(f"{path}/partition.metadata", metadata)
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    arguments = {"is_clean": False, "recovery_point": 0, "log_start_offset": 0, "now": NOW}
    log = load(disk, path, config, **arguments)
    for i in range(500):
        stamps = tuple(WALL_MS - 10_000_000 + 3 * i + j for j in range(3))
        codec = list(Compression)[i % 5]
        batch = built(timestamps=stamps, value=b"%d" % i * 20, compression=codec)
        log.append_built(batch, 0, NOW)
    rows = rows_of(log)
    log.close(NOW)
    checkpoint = log_dir / "recovery-point-offset-checkpoint"
    if trusts_indexes:
        checkpoint.write_text(f"0\n1\ntides 0 {log.log_end_offset}\n")
    else:
        (log_dir / ".kafka_cleanshutdown").unlink()
        checkpoint.unlink()
        for file in Path(path).iterdir():
            if file.suffix in (".index", ".timeindex", ".snapshot"):
                file.unlink()
    return rows
