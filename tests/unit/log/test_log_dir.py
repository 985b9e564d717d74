"""A directory of logs: its checkpoints, its marker, its lock, damage in one of many."""

from __future__ import annotations

import pytest
from tests.unit.log.log_samples import NOW, append, built, read_all

from tidelog.env import AlreadyLocked
from tidelog.log.checkpoint import MalformedFile, MetaProperties
from tidelog.log.config import LogConfig
from tidelog.log.log_dir import LogDir, UnknownDirectory
from tidelog.log.retention import delete_old_segments
from tidelog.sim.disk import Crashed, SimulatedDisk
from tidelog.types import METADATA_TOPIC_ID, Uuid

CONFIG = LogConfig(segment_bytes=500)
TOPIC_ID = Uuid(bytes(range(16)))


def opened(disk: SimulatedDisk) -> LogDir:
    directory = LogDir(disk, "data")
    directory.open()
    directory.load_all(lambda topic: CONFIG, NOW)
    return directory


@pytest.fixture
def directory() -> LogDir:
    directory = opened(SimulatedDisk())
    for topic in ("a", "b-c", "d"):
        log = directory.create(topic, 3, TOPIC_ID, CONFIG, NOW)
        for _ in range(20):
            append(log, built(2))
    return directory


def text(disk: SimulatedDisk, name: str) -> str:
    return disk.read_file(f"data/{name}").decode()


def test_a_clean_stop_and_start(directory):
    directory.logs["a", 3].advance_log_start_offset(7)
    marks = dict.fromkeys(directory.logs, 40)
    directory.close(NOW, marks, broker_epoch=768)
    disk = directory.disk
    assert text(disk, ".kafka_cleanshutdown") == '{"version":0,"brokerEpoch":768}'
    assert text(disk, "recovery-point-offset-checkpoint") == "0\n3\na 3 40\nb-c 3 40\nd 3 40\n"
    assert text(disk, "log-start-offset-checkpoint") == "0\n1\na 3 7\n"
    assert text(disk, "a-3/partition.metadata").endswith("topic_id: AAECAwQFBgcICQoLDA0ODw")
    disk.lock("data/.lock")
    disk.unlock("data/.lock")
    again = opened(disk)
    assert again.was_clean
    assert again.last_broker_epoch == 768
    assert again.high_watermarks == marks
    assert again.logs["a", 3].log_start_offset == 7
    assert again.logs["b-c", 3].topic_id == TOPIC_ID
    assert not disk.exists("data/.kafka_cleanshutdown")


def test_a_crash_while_loading_counts_as_unclean_scenario_19(directory):
    directory.close(NOW, {})
    disk = directory.disk
    crashed = LogDir(disk, "data")
    crashed.open()
    disk.crash_at = disk.operations
    # Whatever it is that fails first, the marker is gone, durably.
    with pytest.raises(Crashed):
        crashed.create("e", 0, TOPIC_ID, CONFIG, NOW)
    assert not opened(disk.crash()).was_clean


def test_a_kill_before_the_first_flush_does_not_make_a_topics_id_durable(directory):
    """The page cache has it, but the next process must not take that for the disk."""
    disk = directory.disk
    disk.unlock("data/.lock")
    again = opened(disk)
    for log in again.logs.values():
        log.flush(NOW)
    again.write(again.recovery_point_checkpoint())
    found = opened(disk.crash())
    assert [log.topic_id for log in found.logs.values()] == [TOPIC_ID] * 3
    assert [log.log_end_offset for log in found.logs.values()] == [40] * 3


def test_a_checkpoint_that_lies_is_refused_scenario_22(directory):
    directory.close(NOW, {})
    name = "data/recovery-point-offset-checkpoint"
    directory.disk.replace(name, b"0\n3\na 3 40\n")
    with pytest.raises(MalformedFile, match="3 entries announced, 1 there"):
        opened(directory.disk)


def test_a_crash_before_the_rename_leaves_the_old_checkpoint_scenario_22(directory):
    disk = directory.disk
    directory.write(directory.high_watermark_checkpoint([(("a", 3), 5)]))
    operations = disk.operations
    directory.write(directory.high_watermark_checkpoint([(("a", 3), 9)]))
    for crash_at in range(operations, disk.operations):
        again = SimulatedDisk()
        victim = LogDir(again, "data")
        victim.open()
        victim.write(victim.high_watermark_checkpoint([(("a", 3), 5)]))
        again.crash_at = again.operations + crash_at - operations
        with pytest.raises(Crashed):
            victim.write(victim.high_watermark_checkpoint([(("a", 3), 9)]))
        for survivor in (again.crash(), again.copy()):
            reader = LogDir(survivor, "data")
            reader.open()
            assert reader.high_watermarks["a", 3] in (5, 9)


def test_a_lost_log_start_checkpoint_falls_back_to_the_first_base_scenario_23(directory):
    log = directory.logs["a", 3]
    log.advance_log_start_offset(15)
    delete_old_segments(log, 40, NOW)
    base = log.segments[0].base_offset
    assert 0 < base < 15
    directory.close(NOW, {})
    directory.disk.remove("data/log-start-offset-checkpoint")
    assert opened(directory.disk).logs["a", 3].log_start_offset == base


def test_damage_takes_one_partition_offline_and_no_other(directory):
    log = directory.logs["b-c", 3]
    file = directory.disk.open(log.segments[1].path(".log"))
    content = bytearray(file.read(0, file.size))
    content[80] ^= 1
    file.truncate(0)
    file.append(content)
    disk = directory.disk.copy()
    again = opened(disk)
    assert sorted(again.logs) == [("a", 3), ("d", 3)]
    assert again.damaged["b-c", 3].path == log.segments[1].path(".log")
    again.close(NOW, {})
    assert not disk.exists("data/.kafka_cleanshutdown"), "a clean start would not look again"
    third = opened(disk)
    assert list(third.damaged) == [("b-c", 3)]
    moved = third.delete("b-c", 3, bytes(16))
    assert moved == f"data/b-c-3.{'0' * 32}-delete"
    assert third.damaged == {}


def test_a_topic_comes_again_right_after_its_deletion(directory):
    piece = directory.logs["a", 3].read(0, 40, 10**6)
    expected = piece.read()
    moved = directory.delete("a", 3, bytes(16))
    log = directory.create("a", 3, Uuid(b"x" * 16), CONFIG, NOW)
    assert log.log_end_offset == 0
    assert piece.read() == expected
    disk = directory.disk.copy()
    again = opened(disk)
    assert again.to_remove == [moved]
    assert again.logs["a", 3].log_end_offset == 0


def test_stray_and_foreign_directories(directory):
    directory.set_aside("a", 3, bytes(16))
    disk = directory.disk.copy()
    disk.make_directory("data/lost+found")
    assert opened(disk.copy()).stray == [f"data/a-3.{'0' * 32}-stray"]
    disk.make_directory("data/foo")
    with pytest.raises(UnknownDirectory, match="foo"):
        opened(disk)


def test_two_nodes_on_one_directory(directory):
    with pytest.raises(AlreadyLocked):
        LogDir(directory.disk, "data").open()


def test_the_metadata_log(directory):
    log = directory.load_metadata_log(CONFIG, NOW)
    assert log.topic_id == METADATA_TOPIC_ID
    log.append_built(built(3), 1, NOW)
    log.flush(NOW)
    directory.close(NOW, {})
    again = opened(directory.disk)
    assert ("__cluster_metadata", 0) not in again.logs
    assert len(read_all(again.load_metadata_log(CONFIG, NOW))) == 1


def test_meta_properties():
    directory = LogDir(SimulatedDisk(), "data")
    assert directory.read_meta_properties() is None
    properties = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 7, TOPIC_ID)
    directory.write_meta_properties(properties)
    assert directory.read_meta_properties() == properties
    directory.disk.replace("data/meta.properties", b"#made\nversion=1\nnode.id=7\n")
    with pytest.raises(MalformedFile, match=r"cluster\.id is missing"):
        directory.read_meta_properties()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_flush_that_never_came_to_be_is_made_up_for(is_stopped):
    """By the next one, or by a clean stop: whose files these are, and their epochs."""
    directory = opened(SimulatedDisk())
    log = directory.create("a", 0, TOPIC_ID, CONFIG, NOW)
    append(log, built(2))
    log.leader_epochs.assign(4, 2)
    assert log.unflushed(NOW) is not None
    if is_stopped:
        directory.close(NOW, {}, broker_epoch=1)
    else:
        log.flush_failed()
        unflushed = log.unflushed(NOW)
        assert unflushed is not None
        unflushed.flush(directory.disk)
    disk = directory.disk.crash(lambda path, unsynced: 0, lambda changes: 0)
    again = opened(disk).logs["a", 0]
    assert again.topic_id == TOPIC_ID
    assert again.leader_epochs.latest == 4


def test_what_compaction_has_seen_is_forgotten_with_what_is_cut_or_gone(directory):
    """Kafka would take new records of these places for compacted ones."""
    directory.close(NOW, {})
    name = "data/cleaner-offset-checkpoint"
    assert not directory.disk.exists(name), "nobody has compacted here"
    bases = [segment.base_offset for segment in directory.logs["a", 3].segments]
    content = f"0\n4\na 3 {bases[-1]}\nb-c 3 2\nd 3 4\nlong-gone 0 9\n"
    directory.disk.replace(name, content.encode())
    again = opened(directory.disk)
    again.logs["a", 3].truncate_to(bases[2] + 1)
    again.delete("d", 3, bytes(16))
    again.close(NOW, {})
    assert text(directory.disk, "cleaner-offset-checkpoint") == f"0\n2\na 3 {bases[2]}\nb-c 3 2\n"
