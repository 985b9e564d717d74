"""What a node does when it is stopped, killed or cut off from power, and when its disk is full,
broken or damaged."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import pytest
from tests.unit.node_client import BROKER, TOPIC, Cluster, create_topic_request

from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.events import Effect, Event, Flush, Lane, RemoveTree, StopProcess
from tidelog.loading import CannotLoad, stop_node
from tidelog.sim.disk import SimulatedDisk
from tidelog.wire.messages import list_offsets

PRODUCE, CREATE_TOPICS = 0, 19


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("t", 2)
    return cluster


# Stops.


@pytest.mark.parametrize("how", [Cluster.restart, Cluster.kill])
def test_all_is_as_it_was_after_a_restart(cluster: Cluster, how: Callable[[Cluster], None]) -> None:
    cluster_id, topic_id = cluster.broker.cluster_id, cluster.topic_id("t")
    for count in range(3):
        cluster.configure(TOPIC, "t", retention_ms=str(1000 + count))
        cluster.produce("t", b"%d" % count, partition=1)
        epoch, broker_epoch = (
            cluster.partition("t", 1).leader_epoch,
            cluster.broker.image.broker_epoch(1),
        )
        how(cluster)
        assert cluster.partition("t", 1).leader_epoch > epoch
        assert cluster.broker.image.broker_epoch(1) > broker_epoch
        assert cluster.values("t", partition=1) == [b"%d" % n for n in range(count + 1)]
        assert cluster.partition("t", 1).high_watermark == count + 1
    assert (cluster.broker.cluster_id, cluster.topic_id("t")) == (cluster_id, topic_id)
    assert cluster.broker.image.topic_configs("t") == {"retention.ms": "1002"}
    assert cluster.metadata("t").topics[0].partitions[1].leader_id == 1


def test_a_clean_stop_leaves_its_marker_and_a_start_takes_it_away(cluster: Cluster) -> None:
    marker = "data/.kafka_cleanshutdown"
    cluster.stop()
    assert cluster.shell.disk.exists(marker)
    cluster.start()
    assert cluster.broker.log_dirs.metadata.was_clean
    assert not cluster.shell.disk.exists(marker)
    cluster.kill()
    assert not cluster.broker.log_dirs.metadata.was_clean


@pytest.mark.parametrize("seed", range(20))
def test_what_was_flushed_and_committed_survives_a_power_failure(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(seed=seed)
    cluster.create_topic("safe", flush_messages="1")
    cluster.create_topic("fast", segment_bytes=str(1 << 20))
    safe: list[bytes] = []
    fast: list[bytes] = []
    for round_ in range(4):
        cluster.create_topic(f"topic-{round_}")
        assert cluster.configure(TOPIC, "fast", retention_ms=str(round_ + 10**9)).error_code == 0
        for _ in range(rng.randrange(1, 6)):
            value = rng.randbytes(rng.randrange(1, 300_000))
            assert cluster.produce("safe", value).error_code == 0
            safe.append(value)
            assert cluster.produce("fast", value).error_code == 0
            fast.append(value)
        cluster.shell.advance(rng.randrange(3000))
        cluster.crash(
            lambda path, unsynced: rng.randrange(unsynced + 1),
            lambda changes: rng.randrange(changes + 1),
        )
        assert cluster.values("safe") == safe
        found = cluster.values("fast")
        assert found == fast[: len(found)]
        fast = fast[: len(found)]
        assert sorted(cluster.broker.image.topics) == sorted(
            ["fast", "safe", *(f"topic-{n}" for n in range(round_ + 1))]
        )
        assert cluster.broker.image.topic_configs("fast")["retention.ms"] == str(round_ + 10**9)


@pytest.mark.parametrize("kept", range(44))
def test_a_new_partition_survives_a_power_failure_at_once(kept: int) -> None:
    """Its files are not durable yet, whatever is left of them: it is empty then, and works."""
    cluster = Cluster()
    cluster.send(create_topic_request("t"))
    while cluster.frames() == []:
        cluster.shell.advance(1)
    cluster.produce("t", b"lost")
    cluster.crash(
        lambda path, unsynced: kept if path.endswith("partition.metadata") else 0,
        lambda changes: changes,
    )
    assert cluster.values("t") == []
    cluster.produce("t", b"kept")
    cluster.restart()
    assert cluster.values("t") == [b"kept"]


@pytest.mark.parametrize("kept", [0, 40, 200])
@pytest.mark.parametrize("count", [0, 3])
def test_a_topic_that_is_made_again_is_not_taken_for_the_one_before(kept: int, count: int) -> None:
    cluster = Cluster(
        log_flush_offset_checkpoint_interval_ms="20000",
        replica_high_watermark_checkpoint_interval_ms="20000",
    )
    cluster.create_topic("t", flush_messages="1")
    for _ in range(5):
        cluster.produce("t", b"of the topic before")
    cluster.shell.advance(20_500)
    for checkpoint in ("recovery-point", "replication"):
        content = cluster.shell.disk.read_file(f"data/{checkpoint}-offset-checkpoint")
        assert content == b"0\n1\nt 0 5\n"
    cluster.delete_topic("t")
    cluster.send(create_topic_request("t", 1))
    while ("t", 0) not in cluster.broker.hosting.by_name:
        cluster.shell.advance(1)
    values = [b"%d" % number for number in range(count)]
    cluster.frames()
    for value in values:
        assert cluster.produce("t", value).error_code == 0
    # Its directory is known after the power failure, and some bytes of each file are.
    cluster.crash(lambda path, unsynced: min(kept, unsynced), lambda changes: changes)
    found = cluster.values("t")
    assert found == values[: len(found)]
    assert cluster.partition("t").high_watermark == len(found)


def test_no_step_waits_for_the_disk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    node = cluster.shell.node
    assert node is not None
    step, is_inside, flushed = node.step, [False], []

    def watched(event: Event, now: Now) -> list[Effect]:
        is_inside[0] = True
        effects = step(event, now)
        is_inside[0] = False
        return effects

    def watch(operation: str, path: str) -> None:
        if is_inside[0] and operation.startswith("flush"):
            flushed.append(path)

    monkeypatch.setattr(node, "step", watched)
    monkeypatch.setattr(cluster.shell.disk, "fault", watch)
    cluster.create_topic("u", 3, flush_messages="1", segment_bytes=str(1 << 20))
    for _ in range(4):
        cluster.produce("u", bytes(600_000))
    cluster.configure(TOPIC, "u", retention_ms="1")
    cluster.shell.advance(600_000)
    cluster.delete_topic("u")
    cluster.shell.advance(100_000)
    assert flushed == []


def test_the_quorum_has_a_lane_to_the_disk_of_its_own(cluster: Cluster) -> None:
    before = len(cluster.shell.effects)
    cluster.configure(TOPIC, "t", retention_ms="1")
    flushes = [one for one in cluster.shell.effects[before:] if isinstance(one, Flush)]
    assert flushes[0].lane is Lane.QUORUM
    before = len(cluster.shell.effects)
    cluster.configure(TOPIC, "t", flush_messages="1")
    cluster.produce("t", b"a")
    flushes = [one for one in cluster.shell.effects[before:] if isinstance(one, Flush)]
    assert [one.lane for one in flushes] == [Lane.QUORUM, Lane.SOME_DAY]


def test_flush_messages_holds_answers_and_readers_until_the_disk_has_the_records() -> None:
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="3")
    cluster.shell.advance(2000)
    cluster.shell.flush_ms = (9, 9)
    assert cluster.produce("t", b"a", b"b").error_code == 0  # as many may be lost
    assert cluster.values("t") == [b"a", b"b"]
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 2, max_wait_ms=500), 12, poll)
    cluster.send(cluster.produce_request("t", cluster.batch(b"c")), 9)
    cluster.shell.advance(5)
    cluster.send(cluster.produce_request("t", cluster.batch(b"d"), acks=0), 9)
    cluster.shell.advance(3)
    assert cluster.frames() == cluster.frames(poll) == []
    assert cluster.partition("t").high_watermark == 2
    assert cluster.log_end_offset("t") == 4
    cluster.shell.advance(1)
    (answer,) = cluster.take(PRODUCE, 9)
    assert answer.responses[0].partition_responses[0].base_offset == 2
    assert len(cluster.frames(poll)) == 1
    cluster.crash()
    assert cluster.values("t")[:3] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("seed", range(10))
def test_nobody_reads_what_flush_messages_lets_a_power_failure_take(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(seed=seed)
    cluster.create_topic("t", flush_messages="1")
    cluster.shell.flush_ms = (0, 20)
    for count in range(30):
        acks = rng.choice((-1, 0, 1))
        cluster.send(cluster.produce_request("t", cluster.batch(b"%d" % count), acks=acks), 9)
        cluster.shell.advance(rng.randrange(10))
        partition = cluster.partition("t")
        assert partition.high_watermark <= partition.log.recovery_point
    acknowledged = len(cluster.take(PRODUCE, 9))
    cluster.connection = cluster.shell.connect()
    seen = cluster.values("t")
    cluster.crash()
    found = cluster.values("t")
    assert found[: len(seen)] == seen
    assert len(found) >= acknowledged > 0


def test_what_was_not_committed_may_be_gone(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (9, 9)
    cluster.send(create_topic_request("u"))
    cluster.crash()
    assert "u" not in cluster.broker.image.topics
    cluster.shell.flush_ms = (0, 0)
    cluster.create_topic("u")


def test_a_stop_answers_who_waits(cluster: Cluster) -> None:
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=10_000), 12, poll)
    node = cluster.shell.node
    assert node is not None
    effects = node.stop(cluster.shell.now)
    assert len(effects) == 1
    assert not node.is_busy


def test_a_stop_waits_for_the_disk(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (9, 9)
    cluster.send(create_topic_request("u"))
    node = cluster.shell.node
    assert node is not None
    assert node.stop(cluster.shell.now) == []
    cluster.shell.advance(8)
    assert cluster.frames() == []
    cluster.shell.advance(1)
    assert not node.is_busy
    assert len(cluster.take(CREATE_TOPICS)) == 1


def test_a_topic_that_is_made_again_has_not_been_compacted(cluster: Cluster) -> None:
    cluster.produce("t", b"a")
    cluster.stop()
    name = "data/cleaner-offset-checkpoint"
    cluster.shell.disk.replace(name, b"0\n1\nt 0 1\n")
    cluster.start()
    cluster.delete_topic("t")
    cluster.create_topic("t")
    cluster.shell.advance(100)
    cluster.crash()
    assert cluster.shell.disk.read_file(name) == b"0\n0\n"


# What an operator hears of a start.


def test_who_leads_again_what_nobody_else_has_speaks_of_no_loss(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster.produce("t", b"a")
    caplog.clear()
    cluster.kill()
    assert cluster.values("t") == [b"a"]
    said = [record.getMessage() for record in caplog.records if "t-0" in record.getMessage()]
    assert said == [
        "broker 1 leads t-0 again, in leader epoch 2: it led it last, and did not stop cleanly. Of"
        " the records up to leader epoch 1 it lacks at most what its disk has lost"
    ]
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_what_a_crash_took_is_told_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "tidelog.start")
    monkeypatch.setattr("tidelog.loading.TOLD_EVERY_BYTES", 1_500_000)
    for _ in range(5):
        cluster.produce("t", bytes(1_000_000), partition=1)
    file = cluster.shell.disk.open("data/t-0/00000000000000000000.log")
    file.append(b"torn")

    def said() -> list[str]:
        records = [record for record in caplog.records if record.name == "tidelog.start"]
        caplog.clear()
        return [record.getMessage() for record in records]

    cluster.kill()
    assert said() == [
        "data/t-0/00000000000000000000.log: cut 4 bytes off at 0: a torn tail",
        "checking t-1: 2 of 5 MB",
        "checking t-1: 4 of 5 MB",
        "checked 2 partitions of data: no clean stop was there",
    ]
    cluster.restart()
    assert said() == []


# Starts that fail.


def test_a_directory_has_one_owner(cluster: Cluster) -> None:
    with pytest.raises(CannotLoad, match="in use by another process"):
        Cluster(cluster.shell.disk)
    cluster.stop()
    with pytest.raises(CannotLoad, match="belongs to node 1, not to node 2"):
        Cluster(cluster.shell.disk, node_id="2", controller_quorum_voters="2@127.0.0.1:9093")


def test_what_this_version_cannot_do_is_said() -> None:
    with pytest.raises(CannotLoad, match="other nodes"):
        Cluster(controller_quorum_voters="1@127.0.0.1:9093,2@127.0.0.1:9094")


def test_a_full_disk_at_the_start_is_said() -> None:
    with pytest.raises(CannotLoad, match="make room"):
        Cluster(SimulatedDisk(capacity_bytes=100))


# A full disk.


def fill(cluster: Cluster, room: int = 0) -> None:
    disk = cluster.shell.disk
    disk.capacity_bytes -= disk.free_bytes - room


def make_room(cluster: Cluster) -> None:
    cluster.shell.disk.capacity_bytes = 1 << 40


def test_producers_wait_for_room_and_readers_do_not(cluster: Cluster) -> None:
    cluster.produce("t", b"a")
    fill(cluster, room=50)
    refused = cluster.produce("t", b"b")
    assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert cluster.values("t") == [b"a"]
    assert (cluster.log_end_offset("t"), cluster.partition("t").high_watermark) == (1, 1)
    cluster.shell.advance(200_000)
    assert cluster.shell.stopped is None
    make_room(cluster)
    assert cluster.produce("t", b"c").base_offset == 1
    cluster.kill()
    assert cluster.values("t") == [b"a", b"c"]


def test_a_refused_batch_may_be_sent_again(cluster: Cluster) -> None:
    """It left no trace in the producer's state."""
    fill(cluster)
    for _ in range(2):
        refused = cluster.produce("t", b"a", producer_id=1, producer_epoch=0, base_sequence=0)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    make_room(cluster)
    sent = cluster.produce("t", b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    assert (sent.error_code, sent.base_offset) == (0, 0)


def test_a_new_segment_needs_room_too() -> None:
    cluster = Cluster()
    cluster.create_topic("t", segment_bytes=str(1 << 20))
    cluster.produce("t", bytes(900_000))
    fill(cluster, room=100_000)
    for _ in range(2):
        assert cluster.produce("t", bytes(200_000)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    make_room(cluster)
    assert cluster.produce("t", bytes(200_000)).base_offset == 1
    cluster.shell.advance(5000)
    cluster.kill()
    assert cluster.values("t") == [bytes(900_000), bytes(200_000)]


def test_metadata_needs_room_too(cluster: Cluster) -> None:
    fill(cluster)
    (refused,) = cluster.ask(create_topic_request("u")).topics
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.metadata("v").topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.configure(TOPIC, "t", retention_ms="1").error_code == 56
    assert "u" not in cluster.broker.metadata.latest.topics
    make_room(cluster)
    cluster.create_topic("u")
    assert cluster.shell.stopped is None


def test_a_partition_for_which_there_was_no_room_comes_when_there_is(cluster: Cluster) -> None:
    cluster.send(create_topic_request("u"))
    fill(cluster)
    cluster.shell.advance(100)
    (answer,) = cluster.take(CREATE_TOPICS)
    assert answer.topics[0].error_code == 0
    assert cluster.produce("u", b"a").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.fetch("u", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    make_room(cluster)
    assert cluster.produce("u", b"a").base_offset == 0
    cluster.restart()
    assert cluster.values("u") == [b"a"]


def test_a_flush_that_finds_no_room_is_done_again() -> None:
    """The epochs' file is written anew with each flush that follows an election."""
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="1")
    cluster.restart()
    fill(cluster, room=len(cluster.batch(b"a")))
    cluster.send(cluster.produce_request("t", cluster.batch(b"a"), timeout_ms=60_000), 9)
    cluster.shell.advance(10_000)
    assert cluster.frames() == []
    assert cluster.shell.stopped is None
    make_room(cluster)
    cluster.shell.advance(1100)
    (answer,) = cluster.take(PRODUCE, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    cluster.crash()
    assert cluster.values("t") == [b"a"]


def test_metadata_that_finds_no_room_while_it_is_flushed_is_flushed_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [DiskFull("no room")]
    monkeypatch.setattr(
        cluster.shell.disk,
        "fault",
        lambda operation, path: (
            faults.pop() if operation == "flush" and "__cluster" in path and faults else None
        ),
    )
    cluster.send(create_topic_request("u"))
    cluster.shell.advance(100)
    assert cluster.frames() == []
    cluster.shell.advance(1000)
    (answer,) = cluster.take(CREATE_TOPICS)
    assert answer.topics[0].error_code == 0
    cluster.crash()
    assert "u" in cluster.broker.image.topics


# A broken disk.


def break_disk(cluster: Cluster, broken: str, where: str) -> None:
    cluster.shell.disk.fault = lambda operation, path: (
        OSError(5, "input/output error") if operation == broken and where in path else None
    )


def assert_offline(cluster: Cluster) -> None:
    assert isinstance(cluster.shell.effects[-1], StopProcess)
    assert "log directory data is offline" in (cluster.shell.stopped or "")
    assert cluster.frames() == []


def test_an_append_that_fails_ends_the_process_without_an_answer(cluster: Cluster) -> None:
    break_disk(cluster, "append", "t-0/")
    cluster.send(cluster.produce_request("t", cluster.batch(b"a")), 9)
    assert_offline(cluster)


def test_metadata_that_cannot_be_appended_ends_the_process(cluster: Cluster) -> None:
    break_disk(cluster, "append", "__cluster_metadata")
    cluster.send(create_topic_request("u"))
    assert_offline(cluster)


def test_metadata_that_cannot_be_flushed_ends_the_process(cluster: Cluster) -> None:
    break_disk(cluster, "flush", "__cluster_metadata")
    cluster.send(create_topic_request("u"))
    cluster.shell.advance(100)
    assert "metadata log cannot be flushed" in (cluster.shell.stopped or "")
    assert cluster.frames() == []


def test_a_partition_that_cannot_be_made_ends_the_process(cluster: Cluster) -> None:
    break_disk(cluster, "make_directory", "u-0")
    cluster.send(create_topic_request("u"))
    cluster.shell.advance(100)
    assert "data is offline" in (cluster.shell.stopped or "")


def test_a_topic_that_cannot_be_renamed_away_ends_the_process(cluster: Cluster) -> None:
    break_disk(cluster, "rename", "t-0")
    with pytest.raises(AssertionError):  # there is no answer
        cluster.delete_topic("t")
    assert "data is offline" in (cluster.shell.stopped or "")


def test_a_background_flush_that_fails_ends_the_process(cluster: Cluster) -> None:
    cluster.restart()
    cluster.produce("t", b"a")
    break_disk(cluster, "flush", "t-0/")
    cluster.shell.advance(5000)
    assert "cannot flush t-0" in (cluster.shell.stopped or "")


# A damaged partition.


def damage(cluster: Cluster, path: str) -> None:
    """Flip a byte in the middle, as a bad disk does."""
    file = cluster.shell.disk.open(path)
    content = bytearray(file.read(0, file.size))
    content[len(content) // 2] ^= 1
    file.truncate(0)
    file.append(content)


@pytest.fixture
def damaged(cluster: Cluster) -> Cluster:
    for index in (0, 1):
        for _ in range(5):
            cluster.produce("t", b"a" * 50, partition=index)
    cluster.shell.disk = cluster.shell.disk.copy()
    damage(cluster, "data/t-0/00000000000000000000.log")
    cluster.start()
    return cluster


def test_a_damaged_partition_is_offline_and_the_others_serve(damaged: Cluster) -> None:
    assert damaged.produce("t", b"b").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert damaged.fetch("t", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(damaged.values("t", partition=1)) == 5
    assert damaged.produce("t", b"b", partition=1).base_offset == 5
    # Nothing is repaired by trying again: its files stay as they were found.
    content = damaged.shell.disk.read_file("data/t-0/00000000000000000000.log")
    damaged.restart()
    assert damaged.shell.disk.read_file("data/t-0/00000000000000000000.log") == content
    assert damaged.produce("t", b"b").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(damaged.values("t", partition=1)) == 6


def test_a_damaged_partition_is_deleted_with_its_topic(damaged: Cluster) -> None:
    assert damaged.delete_topic("t").error_code == 0
    damaged.create_topic("t")
    assert damaged.produce("t", b"b").base_offset == 0
    damaged.shell.advance(120_000)
    removed = [e.path for e in damaged.shell.effects if isinstance(e, RemoveTree)]
    assert sorted(path[:9] for path in removed) == ["data/t-0.", "data/t-1."]
    damaged.restart()
    assert damaged.values("t") == [b"b"]


def test_damaged_metadata_stops_the_start(cluster: Cluster) -> None:
    for count in range(5):
        cluster.create_topic(f"topic-{count}")
    cluster.stop()
    damage(cluster, "data/__cluster_metadata-0/00000000000000000000.log")
    with pytest.raises(CannotLoad, match="metadata log cannot be trusted"):
        cluster.start()


def test_a_partition_that_the_metadata_does_not_know_is_set_aside(cluster: Cluster) -> None:
    cluster.produce("t", b"a")
    cluster.stop()
    disk = cluster.shell.disk
    disk.rename("data/t-0", "data/stranger-3")
    cluster.start()
    names = disk.names("data")
    assert "stranger-3" not in names
    assert any(name.startswith("stranger-3.") and name.endswith("-stray") for name in names)
    cluster.shell.advance(100)  # until no checkpoint tells of a t-0 any more
    assert cluster.values("t") == []
    assert cluster.produce("t", b"b").base_offset == 0


def test_a_foreign_directory_stops_the_start(cluster: Cluster) -> None:
    cluster.stop()
    cluster.shell.disk.make_directory("data/holiday")
    with pytest.raises(CannotLoad, match="holiday"):
        cluster.start()


def test_dynamic_broker_configs_are_there_before_logs_are_loaded(cluster: Cluster) -> None:
    cluster.configure(BROKER, "", log_segment_bytes=str(1 << 20))
    cluster.restart()
    assert cluster.partition("t").log.config.segment_bytes == 1 << 20


# Damage that shows while a node runs.


def tear_batch(cluster: Cluster, path: str, position: int = 8) -> None:
    """A batch says that it is longer than its file."""
    file = cluster.shell.disk.open(path)
    content = bytearray(file.read(0, file.size))
    content[position : position + 4] = b"\x7f\xff\xff\xff"
    file.truncate(0)
    file.append(content)


@pytest.fixture
def torn(caplog: pytest.LogCaptureFixture) -> Cluster:
    """Its partition 0 has a bad batch in a segment that was sealed long ago."""
    cluster = Cluster()
    cluster.create_topic("t", 2, segment_bytes=str(1 << 20))
    for index in (0, 1):
        for _ in range(3):
            cluster.produce("t", bytes(600_000), partition=index)
    cluster.shell.advance(5000)
    tear_batch(cluster, "data/t-0/00000000000000000000.log")
    caplog.clear()
    return cluster


def find_time(cluster: Cluster, partition: int = 0) -> int:
    asked = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=1)
    topic = list_offsets.ListOffsetsTopic(name="t", partitions=(asked,))
    request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))
    return int(cluster.ask(request).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("how", ["fetch", "time"])
def test_damage_takes_one_partition_offline_and_says_where(
    torn: Cluster, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    if how == "fetch":
        assert torn.fetch("t", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    else:
        assert find_time(torn) == ErrorCode.KAFKA_STORAGE_ERROR
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().startswith(
        "partition t-0 is offline: data/t-0/00000000000000000000.log is damaged at position 0: "
    )
    assert torn.produce("t", b"a").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert find_time(torn) == ErrorCode.KAFKA_STORAGE_ERROR
    assert torn.produce("t", b"a", partition=1).base_offset == 3
    assert torn.shell.stopped is None
    torn.shell.advance(100_000)
    # It stays so after a restart, and its files as they are.
    content = torn.shell.disk.read_file("data/t-0/00000000000000000000.log")
    torn.restart()
    assert torn.fetch("t", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert torn.shell.disk.read_file("data/t-0/00000000000000000000.log") == content
    assert torn.delete_topic("t").error_code == 0
    torn.create_topic("t")
    assert torn.produce("t", b"a").base_offset == 0


def test_damage_wakes_who_waits_for_the_partition(torn: Cluster) -> None:
    poll = torn.shell.connect()
    torn.send(torn.fetch_request("t", 3, max_wait_ms=50_000), 12, poll)
    assert find_time(torn) == ErrorCode.KAFKA_STORAGE_ERROR
    (answer,) = torn.take(1, 12, poll)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_segments_are_closed_at_times_that_chance_spreads() -> None:
    cluster = Cluster()
    cluster.create_topic("t", 40, segment_ms="100000", segment_jitter_ms="60000")
    drawn = {cluster.partition("t", n).log.segments.active.roll_jitter_ms for n in range(40)}
    assert len(drawn) > 30
    assert max(drawn) < 60_000


def test_a_stop_on_a_full_disk_is_not_called_clean(cluster: Cluster) -> None:
    cluster.produce("t", b"a")
    cluster.send(create_topic_request("u"))
    fill(cluster)
    assert not stop_node(cluster.node, cluster.shell.now)
    make_room(cluster)
    cluster.start()
    assert cluster.values("t") == [b"a"]
