"""Several log directories: one that fails takes its partitions with it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node_client import BROKER, TOPIC, Cluster, create_topic_request

from tidelog.errors import ErrorCode
from tidelog.loading import CannotLoad
from tidelog.metadata.image import LOST_DIRECTORY
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.messages import (
    alter_configs,
    describe_log_dirs,
    elect_leaders,
    incremental_alter_configs,
    list_offsets,
    produce,
)

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
PRODUCE, FETCH = 0, 1
UNCLEAN = 1
DIRECTORIES = ("data", "more", "third")


@pytest.fixture
def cluster() -> Cluster:
    """Six partitions over three directories, a record in each."""
    cluster = Cluster(log_dirs=",".join(DIRECTORIES))
    cluster.create_topic("t", 6)
    cluster.shell.advance(100)
    for index in range(6):
        assert cluster.produce("t", b"%d" % index, partition=index).error_code == 0
    cluster.shell.advance(2000)
    return cluster


def inside(cluster: Cluster, path: str) -> list[int]:
    """Which partitions of t lie in a directory."""
    names = [name for name in cluster.shell.disk.names(path) if name.startswith("t-")]
    return [int(name[2:]) for name in names]


def break_directory(cluster: Cluster, path: str = "more", *operations: str) -> None:
    cluster.shell.disk.fault = lambda operation, at: (
        OSError(5, "input/output error")
        if (not operations or operation in operations) and f"{at}/".startswith(f"{path}/")
        else None
    )


def mend(cluster: Cluster) -> None:
    cluster.shell.disk.fault = lambda operation, path: None


def described(cluster: Cluster) -> dict[str, Any]:
    request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
    return {result.log_dir: result for result in cluster.ask(request).results}


def partition_states(cluster: Cluster) -> dict[int, Any]:
    return {p.partition_index: p for p in cluster.metadata("t").topics[0].partitions}


def assert_only_more_is_offline(cluster: Cluster) -> None:
    lost, kept = inside(cluster, "more"), [*inside(cluster, "data"), *inside(cluster, "third")]
    cluster.shell.advance(100)
    assert cluster.shell.stopped is None
    for index in lost:
        assert cluster.produce("t", b"x", partition=index).error_code == STORAGE_ERROR
        assert cluster.fetch("t", 0, partition=index).error_code == STORAGE_ERROR
        state = partition_states(cluster)[index]
        assert state.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (state.leader_id, state.offline_replicas) == (-1, (1,))
    for index in kept:
        assert cluster.produce("t", b"x", partition=index).error_code == 0
        state = partition_states(cluster)[index]
        assert (state.error_code, state.leader_id, state.offline_replicas) == (0, 1, ())
    found = described(cluster)
    assert [(path, found[path].error_code) for path in DIRECTORIES] == [
        ("data", 0),
        ("more", STORAGE_ERROR),
        ("third", 0),
    ]
    assert found["more"].topics == ()
    assert (found["more"].total_bytes, found["more"].usable_bytes) == (-1, -1)


def test_partitions_go_where_the_fewest_are(cluster: Cluster) -> None:
    assert [len(inside(cluster, path)) for path in DIRECTORIES] == [2, 2, 2]
    assert inside(cluster, "data") == [0, 3]
    found = described(cluster)
    for path in DIRECTORIES:
        (topic,) = found[path].topics
        assert [p.partition_index for p in topic.partitions] == inside(cluster, path)


def test_each_directory_has_its_own_files(cluster: Cluster) -> None:
    cluster.stop()
    disk = cluster.shell.disk
    properties = {disk.read_file(f"{path}/meta.properties") for path in DIRECTORIES}
    assert len(properties) == 3
    for path in DIRECTORIES:
        lines = (disk.read_file(f"{path}/replication-offset-checkpoint") or b"").splitlines()
        assert lines[2:] == [b"t %d 1" % index for index in inside(cluster, path)]
        assert disk.exists(f"{path}/.kafka_cleanshutdown")
        assert disk.exists(f"{path}/__cluster_metadata-0") == (path == "data")


def test_the_metadata_knows_where_partitions_lie(cluster: Cluster) -> None:
    def assert_known() -> None:
        ids = {one.path: one.directory_id for one in cluster.broker.log_dirs.online}
        assert set(cluster.broker.image.brokers[1].log_dirs) == set(ids.values())
        for path in DIRECTORIES:
            for index in inside(cluster, path):
                state = cluster.broker.image.partition("t", index)
                assert state is not None
                assert state.directories == (ids[path],)

    assert_known()
    cluster.restart()
    assert_known()
    # Moved by hand while nobody looked.
    cluster.stop()
    cluster.shell.disk.rename("more/t-1", "third/t-1")
    cluster.start()
    cluster.shell.advance(100)
    assert_known()
    assert cluster.values("t", partition=1) == [b"1"]


@pytest.mark.parametrize("operation", ["append", "read"])
def test_a_directory_that_fails_takes_only_its_partitions(cluster: Cluster, operation: str) -> None:
    break_directory(cluster, "more", operation)
    index = inside(cluster, "more")[0]
    if operation == "append":
        assert cluster.produce("t", b"x", partition=index).error_code == STORAGE_ERROR
    else:
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=(
                list_offsets.ListOffsetsTopic(
                    name="t",
                    partitions=(
                        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=5),
                    ),
                ),
            ),
        )
        assert cluster.ask(request).topics[0].partitions[0].error_code == STORAGE_ERROR
    assert_only_more_is_offline(cluster)


def test_one_request_hears_of_each_partition(cluster: Cluster) -> None:
    break_directory(cluster)
    data = tuple(
        produce.PartitionProduceData(index=index, records=cluster.batch(b"x")) for index in range(6)
    )
    topic = produce.TopicProduceData(name="t", topic_id=ZERO_UUID, partition_data=data)
    request = produce.ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=1000, topic_data=(topic,)
    )
    (answer,) = cluster.ask(request, 9).responses
    lost = inside(cluster, "more")
    for one in answer.partition_responses:
        assert one.error_code == (STORAGE_ERROR if one.index in lost else 0)
    assert_only_more_is_offline(cluster)


def test_flushes_and_checkpoints_can_fail_too(cluster: Cluster) -> None:
    break_directory(cluster, "more", "flush")
    cluster.shell.advance(60_000)
    assert_only_more_is_offline(cluster)


def test_who_waits_learns_of_it() -> None:
    cluster = Cluster(log_dirs="data,more")
    cluster.create_topic("t", 2, flush_messages="1")
    cluster.shell.advance(2000)
    break_directory(cluster)
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 0, partition=1, max_wait_ms=50_000), 12, poll)
    mend(cluster)
    cluster.send(cluster.produce_request("t", cluster.batch(b"a"), partition=1), 9)
    break_directory(cluster)
    cluster.shell.advance(10)
    (answer,) = cluster.take(PRODUCE, 9)
    refused = answer.responses[0].partition_responses[0]
    assert (refused.error_code, refused.base_offset) == (STORAGE_ERROR, -1)
    (fetched,) = cluster.take(FETCH, 12, poll)
    assert fetched.responses[0].partitions[0].error_code == STORAGE_ERROR


def test_what_is_offline_is_not_made_anew_elsewhere(cluster: Cluster) -> None:
    lost = inside(cluster, "more")
    break_directory(cluster)
    cluster.produce("t", b"x", partition=lost[0])
    cluster.shell.advance(100)
    # A new topic goes where there is room; a restart does not find the directory either.
    cluster.create_topic("u", 2)
    cluster.shell.advance(100)
    for index in (0, 1):
        assert cluster.produce("u", b"u", partition=index).error_code == 0
    cluster.shell.disk = cluster.shell.disk.copy()
    break_directory(cluster)
    cluster.start()
    assert_only_more_is_offline(cluster)
    assert not [i for i in lost if i in (*inside(cluster, "data"), *inside(cluster, "third"))]
    assert cluster.values("u", partition=1) == [b"u"]
    # And when it is back, so are they.
    mend(cluster)
    cluster.kill()
    cluster.shell.advance(100)
    for index in lost:
        assert cluster.values("t", partition=index) == [b"%d" % index]
        assert partition_states(cluster)[index].offline_replicas == ()


def test_a_topic_is_deleted_beside_what_is_offline(cluster: Cluster) -> None:
    lost = inside(cluster, "more")
    break_directory(cluster)
    assert cluster.delete_topic("t").error_code == 0
    cluster.shell.advance(100_000)
    assert cluster.shell.stopped is None
    assert inside(cluster, "data") == inside(cluster, "third") == []
    mend(cluster)
    cluster.create_topic("t", 1)
    assert cluster.values("t") == []
    cluster.kill()
    assert cluster.values("t") == []
    names = cluster.shell.disk.names("more")
    assert [n[:3] for n in names if n.endswith("-stray")] == [f"t-{index}" for index in lost]


def test_without_the_metadata_the_process_ends(cluster: Cluster) -> None:
    break_directory(cluster, "data")
    cluster.send(cluster.produce_request("t", cluster.batch(b"a")), 9)
    assert "log directory data is offline" in (cluster.shell.stopped or "")


def test_without_the_last_one_the_process_ends() -> None:
    cluster = Cluster(log_dirs="data,more", metadata_log_dir="meta")
    cluster.create_topic("t", 2)
    assert cluster.shell.disk.exists("meta/__cluster_metadata-0")
    break_directory(cluster, "data")
    assert cluster.produce("t", b"a").error_code == STORAGE_ERROR
    assert cluster.produce("t", b"a", partition=1).error_code == 0
    break_directory(cluster, "more")
    cluster.send(cluster.produce_request("t", cluster.batch(b"a"), partition=1), 9)
    assert cluster.frames() == []
    assert "log directory more is offline" in (cluster.shell.stopped or "")


def test_a_report_waits_for_room(cluster: Cluster) -> None:
    disk = cluster.shell.disk
    break_directory(cluster)
    disk.capacity_bytes -= disk.free_bytes
    cluster.produce("t", b"x", partition=inside(cluster, "more")[0])
    cluster.shell.advance(3000)
    assert len(cluster.broker.image.brokers[1].log_dirs) == 3
    disk.capacity_bytes = 1 << 40
    cluster.shell.advance(3000)
    assert len(cluster.broker.image.brokers[1].log_dirs) == 2


def test_directories_that_do_not_belong_together(cluster: Cluster) -> None:
    cluster.stop()
    disk = cluster.shell.disk
    content = disk.read_file("more/meta.properties") or b""
    other = disk.read_file("third/meta.properties") or b""
    disk.replace("more/meta.properties", other)
    with pytest.raises(CannotLoad, match=r"same directory\.id"):
        Cluster(disk.copy(), log_dirs=",".join(DIRECTORIES))
    lines = content.split(b"cluster.id=")
    disk.replace("more/meta.properties", lines[0] + b"cluster.id=another\n")
    with pytest.raises(CannotLoad, match="belongs to cluster"):
        Cluster(disk.copy(), log_dirs=",".join(DIRECTORIES))
    disk.replace("more/meta.properties", content)
    with pytest.raises(CannotLoad, match="is to have the metadata log"):
        Cluster(disk.copy(), log_dirs=",".join(("new", *DIRECTORIES)))
    # One more is fine, and formatted.
    grown = Cluster(disk.copy(), log_dirs=",".join((*DIRECTORIES, "new")))
    assert grown.values("t", partition=1) == [b"1"]
    grown.create_topic("u")
    grown.shell.advance(100)
    assert grown.shell.disk.exists("new/u-0")
    disk.make_directory("third/t-0")
    for name in disk.names("data/t-0"):
        disk.replace(f"third/t-0/{name}", disk.read_file(f"data/t-0/{name}") or b"")
    with pytest.raises(CannotLoad, match="t-0 is in data and in third"):
        Cluster(disk.copy(), log_dirs=",".join(DIRECTORIES))


def test_creating_in_a_broken_directory_tries_another() -> None:
    cluster = Cluster(log_dirs="data,more")
    cluster.create_topic("t")
    cluster.shell.advance(100)
    break_directory(cluster)
    cluster.send(create_topic_request("u"))
    cluster.shell.advance(3000)
    assert cluster.shell.disk.exists("data/u-0")
    cluster.frames()
    assert cluster.produce("u", b"a").error_code == 0


def test_a_lost_directory_is_offline() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    image = cluster.broker.image
    state = image.partition("t", 0)
    assert state is not None
    assert image.is_online(1, state)
    assert not image.is_online(1, state._replace(directories=(LOST_DIRECTORY,)))
    assert not image.is_online(1, state._replace(directories=(Uuid(b"x" * 16),)))
    assert not image.is_online(2, state)


def test_who_lost_its_records_with_its_disk_waits_for_an_operator(cluster: Cluster) -> None:
    """It leads at once, empty, if the controller hears of the new directory before the broker is
    unfenced: then nobody asks for what another replica may have."""
    lost = inside(cluster, "more")
    disk = cluster.shell.disk
    for path in [path for path in disk.paths() if path.startswith("more/")]:
        disk.remove(path)
    for index in lost:
        disk.remove_directory(f"more/t-{index}")
    cluster.kill()
    cluster.shell.advance(100)
    found = {one.path: one.directory_id for one in cluster.broker.log_dirs.online}
    for index in lost:
        state = cluster.broker.image.partition("t", index)
        assert state is not None
        assert (state.leader, state.directories) == (-1, (found["more"],))
    for index in set(range(6)) - set(lost):
        assert cluster.values("t", partition=index) == [b"%d" % index]
    elections = elect_leaders.TopicPartitions(topic="t", partitions=tuple(lost))
    request = elect_leaders.ElectLeadersRequest(
        election_type=UNCLEAN, topic_partitions=(elections,), timeout_ms=1000
    )
    assert cluster.ask(request).error_code == 0
    cluster.shell.advance(100)
    for index in lost:
        assert cluster.produce("t", b"anew", partition=index).error_code == 0


def test_a_cordoned_directory_gets_nothing_new() -> None:
    cluster = Cluster(log_dirs="data,more", cordoned_log_dirs="more")
    cluster.shell.advance(100)
    cluster.create_topic("t", 4)
    cluster.shell.advance(100)
    assert (len(inside(cluster, "data")), inside(cluster, "more")) == (4, [])
    found = described(cluster)
    assert [found[path].is_cordoned for path in ("data", "more")] == [False, True]
    assert cluster.configure(BROKER, "1", cordoned_log_dirs="*").error_code == 0
    cluster.shell.advance(100)
    (refused,) = cluster.ask(create_topic_request("u")).topics
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.configure(BROKER, "1", cordoned_log_dirs="data").error_code == 0
    cluster.shell.advance(100)
    cluster.create_topic("u", 2)
    cluster.shell.advance(100)
    assert [cluster.shell.disk.exists(f"more/u-{index}") for index in (0, 1)] == [True, True]
    cluster.restart()
    cluster.shell.advance(100)
    cordoned = cluster.broker.image.brokers[1].cordoned_log_dirs
    assert cordoned == (cluster.broker.log_dirs.online[0].directory_id,)
    cluster.configure(BROKER, "1", cordoned_log_dirs="")
    cluster.shell.advance(100)
    assert cluster.broker.image.brokers[1].cordoned_log_dirs == ()


@pytest.mark.parametrize("is_incremental", [True, False])
def test_a_broker_that_forwards_looks_at_what_it_is_to_cordon(
    monkeypatch: pytest.MonkeyPatch, is_incremental: bool
) -> None:
    """The controller may be elsewhere: it does not know this broker's directories."""
    cluster = Cluster(log_dirs="data,more")
    cluster.create_topic("t")
    forwarded: list[Any] = []
    forward = cluster.broker.controller.forward

    def elsewhere(request: Any, now: Any) -> Any:
        forwarded.append(request.message)
        return forward(request, now)

    monkeypatch.setattr(cluster.broker.controller, "forward", elsewhere)
    module: Any = incremental_alter_configs if is_incremental else alter_configs

    def cordon(value: str, *topics: str) -> list[tuple[int, str]]:
        resources = [(BROKER, "1", "cordoned.log.dirs", value)]
        resources += [(TOPIC, topic, "retention.ms", "7") for topic in topics]
        operation = {"config_operation": 0} if is_incremental else {}
        message = (
            incremental_alter_configs.IncrementalAlterConfigsRequest
            if is_incremental
            else alter_configs.AlterConfigsRequest
        )(
            resources=tuple(
                module.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=(module.AlterableConfig(name=key, value=new, **operation),),
                )
                for kind, name, key, new in reversed(resources)
            ),
            validate_only=False,
        )
        return [(one.error_code, one.error_message or "") for one in cluster.ask(message).responses]

    left, (code, text) = cordon("more,elsewhere", "t")
    assert left == (ErrorCode.OPERATION_NOT_ATTEMPTED, "")
    assert code == ErrorCode.INVALID_REQUEST
    assert "Missing entries : elsewhere" in text
    assert not forwarded
    assert cluster.broker.image.topic_configs("t") == {}
    assert cordon("more", "t") == [(0, ""), (0, "")]
    assert len(forwarded) == 1
    assert cluster.broker.config.cordoned_log_dirs == ("more",)
    assert cluster.broker.image.topic_configs("t") == {"retention.ms": "7"}
