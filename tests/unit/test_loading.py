"""What a node makes of the metadata that it finds: snapshots, formats, what it does not know."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.node_client import PROPERTIES, Cluster

from tidelog.config.broker import BrokerConfig
from tidelog.loading import CannotLoad, load_node, stop_node
from tidelog.log.checkpoint import parse_clean_shutdown
from tidelog.metadata.frame import decode_record_version
from tidelog.metadata.records.cluster import FeatureLevelRecord
from tidelog.metadata.records.topics import PartitionRecord
from tidelog.metadata.snapshot import records_of, snapshot_content, snapshot_name
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.shell import SimulatedShell
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records
from tidelog.wire.declare import Message

METADATA = "data/__cluster_metadata-0"
LOG = f"{METADATA}/00000000000000000000.log"


def write_snapshot(cluster: Cluster, size: int | None = None) -> str:
    """Of all that is committed, as Apache Kafka would; with a size, torn there."""
    image = cluster.broker.image
    content = snapshot_content(
        list(records_of(image)), epoch=image.epoch, last_timestamp_ms=0, written_at_ms=0
    )
    path = f"{METADATA}/{snapshot_name(image.offset + 1, image.epoch)}"
    cluster.shell.disk.replace(path, content[:size])
    return path


def cut_log(cluster: Cluster) -> None:
    """Nothing of the log is left but an empty segment behind the snapshot."""
    disk, end = cluster.shell.disk, cluster.broker.metadata.log.log_end_offset
    for name in disk.names(METADATA):
        if name.endswith((".log", ".index", ".timeindex", ".snapshot")):
            disk.remove(f"{METADATA}/{name}")
    disk.open(f"{METADATA}/{end:020}.log")


def test_a_log_may_begin_with_a_snapshot() -> None:
    cluster = Cluster()
    cluster.create_topic("t", 2, retention_ms="5")
    cluster.produce("t", b"a")
    cluster.stop()
    write_snapshot(cluster)
    cut_log(cluster)
    end = cluster.broker.metadata.log.log_end_offset
    cluster.start()
    assert cluster.broker.metadata.log.log_start_offset == end
    assert cluster.broker.image.topic_configs("t") == {"retention.ms": "5"}
    assert cluster.values("t") == [b"a"]
    cluster.create_topic("u")
    cluster.kill()
    assert sorted(cluster.broker.image.topics) == ["t", "u"]


def test_a_snapshot_ahead_of_the_log_takes_its_place() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    cluster.stop()
    write_snapshot(cluster)
    cluster.shell.disk.open(LOG).truncate(0)
    end = cluster.broker.metadata.log.log_end_offset
    cluster.start()
    assert cluster.broker.metadata.log.log_start_offset == end
    assert "t" in cluster.broker.image.topics


def test_a_torn_snapshot_is_passed_over() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    cluster.stop()
    write_snapshot(cluster, size=-1)
    cluster.start()
    assert "t" in cluster.broker.image.topics


def test_without_its_beginning_nothing_is_believed() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    cluster.stop()
    cut_log(cluster)
    with pytest.raises(CannotLoad, match="no snapshot has what was before"):
        cluster.start()
    assert cluster.shell.disk.exists("data/t-0")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("recovery-point-offset-checkpoint", "remove it, and the start looks through"),
        ("log-start-offset-checkpoint", "remove it, and records deleted"),
        ("meta.properties", "correct it"),
        ("__cluster_metadata-0/quorum-state", "this node could vote twice"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(name: str, remedy: str) -> None:
    cluster = Cluster()
    cluster.stop()
    cluster.shell.disk.replace(f"data/{name}", b"nonsense")
    with pytest.raises(CannotLoad, match=rf"^data/{name}: .*; .*{remedy}"):
        cluster.start()


def bootstrapped(*records: Message) -> Cluster:
    """On a directory that was formatted with these records."""
    first = Cluster()
    first.stop()
    disk = SimulatedDisk()
    disk.make_directory("data")
    meta = first.shell.disk.read_file("data/meta.properties")
    assert meta is not None
    disk.replace("data/meta.properties", meta)
    content = snapshot_content(records, epoch=0, last_timestamp_ms=0, written_at_ms=0)
    disk.replace("data/bootstrap.checkpoint", content)
    return Cluster(disk)


def level(name: str, value: int) -> Message:
    return FeatureLevelRecord(name=name, feature_level=value)


def test_a_new_cluster_has_the_levels_of_its_format() -> None:
    cluster = bootstrapped(level("metadata.version", 21), level("group.version", 1))
    features = dict(cluster.broker.image.features.items())
    assert features == {"metadata.version": 21, "group.version": 1}


@pytest.mark.parametrize(("metadata_version", "version"), [(7, 0), (17, 1), (23, 2)])
def test_records_are_written_as_the_level_wants(metadata_version: int, version: int) -> None:
    cluster = bootstrapped(level("metadata.version", metadata_version))
    cluster.create_topic("t")
    cluster.produce("t", b"a")
    assert partition_versions(cluster) == {version}
    cluster.restart()
    assert cluster.values("t") == [b"a"]


def partition_versions(cluster: Cluster) -> set[int]:
    content = cluster.shell.disk.read_file(LOG) or b""
    found = set()
    for batch in BatchWalk(content):
        for record in [] if batch.is_control else read_records(batch):
            decoded, version = decode_record_version(record.value or b"")
            if isinstance(decoded, PartitionRecord):
                found.add(version)
    return found


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([level("metadata.version", 31)], "UNSUPPORTED_VERSION"),
        ([level("metadata.version", 30), level("moon.version", 1)], "UNSUPPORTED_VERSION"),
    ],
)
def test_levels_that_are_not_known_are_refused(records: Sequence[Message], reason: str) -> None:
    with pytest.raises(CannotLoad, match=reason):
        bootstrapped(*records)


def test_records_of_a_newer_version_are_refused_in_one_line() -> None:
    cluster = Cluster()
    cluster.stop()
    builder = BatchBuilder()
    builder.append(None, bytes((1, 99, 0)), timestamp=0)
    end_offset = cluster.broker.metadata.log.log_end_offset
    batch = builder.build(base_offset=end_offset, partition_leader_epoch=1)
    cluster.shell.disk.open(LOG).append(batch)
    with pytest.raises(CannotLoad, match="record type 99 is unknown"):
        cluster.start()


def test_without_static_voters_the_log_names_them() -> None:
    cluster = Cluster(
        controller_quorum_voters="", controller_quorum_bootstrap_servers="127.0.0.1:9093"
    )
    for _ in range(2):
        assert cluster.broker.metadata.kraft_version == 1
        assert cluster.broker.metadata.raft.voters.ids == (1,)
        cluster.restart()
    state = cluster.shell.disk.read_file(f"{METADATA}/quorum-state") or b""
    assert b'"data_version":1' in state


@pytest.mark.parametrize("servers", ["127.0.0.1:9093,127.0.0.1:9094", "other:9093"])
def test_a_node_whose_quorum_has_others_does_not_begin_one_of_its_own(servers: str) -> None:
    with pytest.raises(CannotLoad, match="tidelog format --cluster-id"):
        Cluster(controller_quorum_voters="", controller_quorum_bootstrap_servers=servers)


def test_a_node_that_is_only_a_controller_starts_and_stops_cleanly() -> None:
    roles = {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}
    config = BrokerConfig.from_properties(PROPERTIES | roles)
    shell = SimulatedShell(SimulatedDisk())
    for _ in range(2):
        node = load_node(config, shell.disk, shell.rng, shell.now)
        shell.run(node)
        shell.advance(100)
        assert node.controller.is_active
        assert stop_node(node, shell.now)
        assert shell.disk.exists("data/.kafka_cleanshutdown")


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_process_claims_no_epoch_but_its_own(is_registered: bool) -> None:
    """Else one that lost records and was never registered, but stopped cleanly, would count as
    the one before it."""
    cluster = Cluster()
    epoch = cluster.broker.broker_epoch
    assert epoch >= 0
    if not is_registered:
        cluster.broker.lifecycle.broker_epoch = epoch = -1
    cluster.stop()
    marker = cluster.shell.disk.read_file("data/.kafka_cleanshutdown")
    assert marker is not None
    assert parse_clean_shutdown(marker) == epoch


def test_the_metadata_log_has_segments_of_its_own_size() -> None:
    cluster = Cluster(internal_metadata_log_segment_bytes="2000")
    for number in range(20):
        cluster.create_topic(f"t{number}")
    assert len(list(cluster.broker.metadata.log.segments)) > 1
    cluster.restart()
    assert len(cluster.broker.image.topics) == 20
