"""Clients that send nonsense, ask for too much or never read: a node survives them all."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.conftest import examples
from tests.unit.node_client import (
    Cluster,
    create_topic_request,
    fetch_partition,
    highest_version,
    request_frame,
)

from tidelog.broker.router import HANDLERS
from tidelog.controller import topic_changes, topics
from tidelog.errors import ErrorCode
from tidelog.events import PauseReading, ResumeReading
from tidelog.runtime.rows import WAITING_BYTES_MAX, WAITING_MAX
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.api import APIS
from tidelog.wire.declare import Message
from tidelog.wire.messages import (
    add_raft_voter,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    unregister_broker,
    update_features,
)
from tidelog.wire.source import STRING_BYTES_MAX


def samples(cluster: Cluster) -> dict[int, Message]:
    """One sensible request of each API."""
    topic_id = cluster.topic_id("t")
    partition = produce.PartitionProduceData(index=0, records=cluster.batch(b"a", b"b"))
    by_name = fetch.FetchTopic(
        topic="t", topic_id=topic_id, partitions=(fetch_partition(0, 0), fetch_partition(1, 0))
    )
    changed = incremental_alter_configs.AlterableConfig(
        name="retention.ms", config_operation=0, value="5"
    )
    requests: list[Message] = [
        produce.ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=5,
            topic_data=(
                produce.TopicProduceData(name="t", topic_id=topic_id, partition_data=(partition,)),
            ),
        ),
        fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=(by_name,), session_epoch=0),
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=(
                list_offsets.ListOffsetsTopic(
                    name="t",
                    partitions=(
                        list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),
                    ),
                ),
            ),
        ),
        metadata.MetadataRequest(
            topics=(metadata.MetadataRequestTopic(name="u"),), allow_auto_topic_creation=True
        ),
        find_coordinator.FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=("g",)),
        api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1"),
        create_topic_request("v", 2, retention_ms="7"),
        delete_topics.DeleteTopicsRequest(
            topics=(delete_topics.DeleteTopicState(name="w", topic_id=ZERO_UUID),),
            topic_names=("w",),
            timeout_ms=5,
        ),
        delete_records.DeleteRecordsRequest(
            topics=(
                delete_records.DeleteRecordsTopic(
                    name="t",
                    partitions=(
                        delete_records.DeleteRecordsPartition(partition_index=0, offset=0),
                    ),
                ),
            ),
            timeout_ms=5,
        ),
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=5),
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=(
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="t",
                    partitions=(
                        offset_for_leader_epoch.OffsetForLeaderPartition(
                            partition=0, leader_epoch=0
                        ),
                    ),
                ),
            )
        ),
        describe_configs.DescribeConfigsRequest(
            resources=(
                describe_configs.DescribeConfigsResource(
                    resource_type=2, resource_name="t", configuration_keys=("retention.ms",)
                ),
            )
        ),
        alter_configs.AlterConfigsRequest(
            resources=(
                alter_configs.AlterConfigsResource(
                    resource_type=2,
                    resource_name="t",
                    configs=(alter_configs.AlterableConfig(name="retention.ms", value="9"),),
                ),
            ),
            validate_only=False,
        ),
        describe_log_dirs.DescribeLogDirsRequest(topics=None),
        create_partitions.CreatePartitionsRequest(
            topics=(create_partitions.CreatePartitionsTopic(name="t", count=3, assignments=None),),
            timeout_ms=5,
            validate_only=False,
        ),
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=2, resource_name="t", configs=(changed,)
                ),
            ),
            validate_only=False,
        ),
        update_features.UpdateFeaturesRequest(
            feature_updates=(
                update_features.FeatureUpdateKey(
                    feature="group.version", max_version_level=1, upgrade_type=1
                ),
            )
        ),
        describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
        describe_producers.DescribeProducersRequest(
            topics=(describe_producers.TopicRequest(name="t", partition_indexes=(0, 1)),)
        ),
        list_config_resources.ListConfigResourcesRequest(resource_types=(2,)),
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=(describe_topic_partitions.TopicRequest(name="t"),),
            cursor=describe_topic_partitions.Cursor(topic_name="t", partition_index=1),
        ),
        *cluster_samples(topic_id),
    ]
    return {request.API_KEY: request for request in requests if request.API_KEY is not None}


def cluster_samples(directory_id: Uuid) -> list[Message]:
    """Of those that only the active controller answers, what is about brokers and voters."""
    moved = alter_partition_reassignments.ReassignableTopic(
        name="t",
        partitions=(
            alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=(1,)),
            alter_partition_reassignments.ReassignablePartition(partition_index=1),
        ),
    )
    listed = list_partition_reassignments.ListPartitionReassignmentsTopics(
        name="t", partition_indexes=(0, 1)
    )
    quorum = describe_quorum.TopicData(
        topic_name="__cluster_metadata",
        partitions=(describe_quorum.PartitionData(partition_index=0),),
    )
    listener = add_raft_voter.Listener(name="CONTROLLER", host="h", port=1)
    return [
        elect_leaders.ElectLeadersRequest(
            topic_partitions=(elect_leaders.TopicPartitions(topic="t", partitions=(0, 5)),)
        ),
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=(moved,)),
        list_partition_reassignments.ListPartitionReassignmentsRequest(topics=(listed,)),
        describe_quorum.DescribeQuorumRequest(topics=(quorum,)),
        unregister_broker.UnregisterBrokerRequest(broker_id=9),
        add_raft_voter.AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=5,
            voter_id=2,
            voter_directory_id=directory_id,
            listeners=(listener,),
        ),
        remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=None, voter_id=2, voter_directory_id=directory_id
        ),
    ]


def sample_frames(cluster: Cluster) -> list[tuple[int, int, bytes]]:
    """Key, version and frame: each API in its lowest and its highest version."""
    found = []
    for key, message in sorted(samples(cluster).items()):
        lowest = max(APIS[key].versions[0], 3 if key == 0 else 0)
        for version in sorted({lowest, highest_version(key)}):
            found.append((key, version, request_frame(_fit(message, key, version), version, 7)))
    return found


def _fit(message: Message, key: int, version: int) -> Message:
    """Without the fields that the version does not have and that may not be left out silently."""
    match key, version:
        case (0, v) if v < 13:
            (topic,) = message.topic_data  # type: ignore[attr-defined]
            return message.replace(topic_data=(topic.replace(topic_id=ZERO_UUID),))
        case (1, v) if v < 7:
            return message.replace(session_epoch=-1)
        case (10, v) if v < 4:
            return message.replace(coordinator_keys=())
        case (10, _):
            return message.replace(key="")
        case (18, v) if v < 3:
            return message.replace(client_software_name="", client_software_version="")
        case (20, v) if v < 6:
            return message.replace(topics=())
        case (20, _):
            return message.replace(topic_names=())
        case (74, 0):
            return message.replace(resource_types=())
        case _:
            return message


def new_cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("t", 2)
    cluster.create_topic("w")
    cluster.produce("t", b"a")
    return cluster


def assert_alive(cluster: Cluster) -> None:
    assert cluster.shell.stopped is None
    connection = cluster.shell.connect()
    request = api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    assert cluster.ask(request, connection=connection).error_code == 0


@pytest.fixture(scope="module")
def few_partitions() -> Iterator[None]:
    """A request for 10,000 is fine with a node, but takes the simulated disk a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "PARTITIONS_MAX", 20)
        patch.setattr(topic_changes, "RECORDS_MAX", 20)
        yield


@pytest.fixture
def no_errors_of_ours(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a handler raises is ours to mend: the node logs it, the test fails."""
    yield
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


SAMPLE_FRAMES = 51


EXPECTED = {
    (10, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE,
    (64, 0): ErrorCode.BROKER_ID_NOT_REGISTERED,
    # The voters stand in the configuration.
    (80, 0): ErrorCode.UNSUPPORTED_VERSION,
    (80, 1): ErrorCode.UNSUPPORTED_VERSION,
    (81, 0): ErrorCode.UNSUPPORTED_VERSION,
}
"""By key and version, where the answer as a whole says no."""


def test_every_api_is_sampled() -> None:
    cluster = new_cluster()
    assert set(samples(cluster)) == set(HANDLERS)
    assert len(sample_frames(cluster)) == SAMPLE_FRAMES


@pytest.mark.usefixtures("no_errors_of_ours")
@pytest.mark.parametrize("place", range(SAMPLE_FRAMES))
def test_each_api_answers_in_its_lowest_and_highest_version(place: int) -> None:
    cluster = new_cluster()
    key, version, frame = sample_frames(cluster)[place]
    cluster.shell.send(cluster.connection, frame)
    cluster.shell.advance(1000)
    (answer,) = cluster.take(key, version)
    assert cluster.shell.closed == {}
    assert getattr(answer, "error_code", 0) == EXPECTED.get((key, version), 0)


def mutate(frame: bytes, data: st.DataObject) -> bytes:
    """The frame's body with some bytes changed, cut out or doubled; its length is right."""
    body = bytearray(frame[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(4, len(body) - 1)) if len(body) > 5 else 4
        match data.draw(st.integers(0, 4)):
            case 0:
                body[position] = data.draw(st.integers(0, 255))
            case 1:
                body[position] ^= 1 << data.draw(st.integers(0, 7))
            case 2:
                del body[position : position + data.draw(st.integers(1, 8))]
            case 3:
                body[position:position] = data.draw(st.binary(min_size=1, max_size=8))
            case _:
                extreme = data.draw(st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4)]))
                body[position : position + 4] = extreme
        if len(body) < 6:
            break
    return struct.pack(">i", len(body)) + bytes(body)


@pytest.mark.usefixtures("no_errors_of_ours", "few_partitions")
@examples(60)
@given(data=st.data())
def test_mutated_requests_never_raise(data: st.DataObject) -> None:
    cluster = new_cluster()
    frames = sample_frames(cluster)
    for _ in range(data.draw(st.integers(1, 20))):
        _, _, frame = data.draw(st.sampled_from(frames))
        connection = cluster.shell.connect()
        cluster.shell.send(connection, mutate(frame, data))
        cluster.shell.advance(data.draw(st.sampled_from([0, 1, 700])))
    assert_alive(cluster)
    cluster.shell.advance(100_000)
    cluster.kill()
    assert_alive(cluster)


@examples(200)
@given(stream=st.binary(max_size=200))
@example(b"\xff" * 8)
@example(struct.pack(">i", 1 << 30))
@example(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
def test_any_bytes_at_all(stream: bytes) -> None:
    cluster = SHARED
    cluster.shell.send(cluster.shell.connect(), stream)
    assert cluster.shell.stopped is None


SHARED = new_cluster()


@pytest.mark.usefixtures("no_errors_of_ours")
@pytest.mark.parametrize("version", [2, 7])
def test_an_answer_may_quote_the_longest_name(version: int) -> None:
    cluster = new_cluster()
    request = create_topic_request("x" * STRING_BYTES_MAX)
    (topic,) = cluster.ask(request, version).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert topic.error_message.endswith("x")
    request = create_topic_request("y", retention_ms="z" * STRING_BYTES_MAX)
    (topic,) = cluster.ask(request, version).topics
    assert topic.error_code == ErrorCode.INVALID_CONFIG


def test_a_connection_with_many_waiting_answers_is_not_read_from() -> None:
    cluster = new_cluster()
    sent = 3 * WAITING_MAX
    cluster.send(cluster.fetch_request("t", 1, max_wait_ms=1000), 12)
    for _ in range(sent):
        cluster.send(cluster.produce_request("t", cluster.batch(b"a"), partition=1), 9)
    pauses = [e for e in cluster.shell.effects if isinstance(e, PauseReading)]
    assert pauses == [PauseReading(cluster.connection)]
    assert cluster.log_end_offset("t", 1) == WAITING_MAX
    assert cluster.frames() == []
    cluster.shell.advance(1000)
    resumed = [e for e in cluster.shell.effects if isinstance(e, ResumeReading)]
    assert resumed == [ResumeReading(cluster.connection)]
    assert len(cluster.frames()) == sent + 1
    assert cluster.log_end_offset("t", 1) == sent


def every_config() -> Message:
    """A request with a large answer."""
    broker = describe_configs.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=None
    )
    return describe_configs.DescribeConfigsRequest(
        resources=(broker,), include_synonyms=True, include_documentation=True
    )


def size_of_every_config(cluster: Cluster) -> int:
    connection = cluster.shell.connect()
    cluster.send(every_config(), 4, connection)
    cluster.shell.advance(100)
    (answer,) = cluster.frames(connection)
    assert len(answer) > 10_000
    return len(answer) + 4


def test_large_answers_that_wait_are_counted_by_their_bytes() -> None:
    cluster = new_cluster()
    size = size_of_every_config(cluster)
    cluster.send(cluster.fetch_request("t", 1, max_wait_ms=10_000), 12)
    for _ in range(100):
        cluster.send(every_config(), 4)
        cluster.shell.advance(50)
    assert WAITING_BYTES_MAX // 2 < cluster.node.rows.bytes <= WAITING_BYTES_MAX + size
    assert cluster.frames() == []
    cluster.shell.advance(10_000)
    assert len(cluster.frames()) == 101
    assert cluster.node.rows.bytes == 0


def test_all_connections_together_let_only_so_much_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.runtime.rows.WAITING_BYTES_NODE_MAX", 200_000)
    cluster = new_cluster()
    size = size_of_every_config(cluster)
    connections = [cluster.shell.connect() for _ in range(50)]
    for connection in connections:
        cluster.send(cluster.fetch_request("t", 1, max_wait_ms=10_000), 12, connection)
    for _ in range(5):
        for connection in connections:
            cluster.send(every_config(), 4, connection)
        cluster.shell.advance(500)
    assert 200_000 < cluster.node.rows.bytes <= 200_000 + 50 * size
    for connection in connections[:25]:
        cluster.shell.disconnect(connection)
    assert 0 < cluster.node.rows.bytes <= 200_000 + 25 * size
    cluster.shell.advance(10_000)
    assert {len(cluster.frames(connection)) for connection in connections[25:]} == {6}
    assert cluster.node.rows.bytes == 0


def test_records_that_wait_cost_nothing_before_they_are_read() -> None:
    cluster = new_cluster()
    cluster.produce("t", bytes(500_000))
    end = cluster.log_end_offset("t")
    cluster.send(cluster.fetch_request("t", end, max_wait_ms=1000), 12)
    for _ in range(5):
        cluster.send(cluster.fetch_request("t", end - 1), 12)
    assert 0 < cluster.node.rows.bytes < 2000
    cluster.shell.advance(1000)
    assert sum(len(frame) for frame in cluster.frames()) > 5 * 500_000


def test_thousands_of_long_polls_leave_nothing_behind() -> None:
    cluster = new_cluster()
    connections = [cluster.shell.connect() for _ in range(2000)]
    for connection in connections:
        cluster.send(cluster.fetch_request("t", 1, max_wait_ms=(1 << 31) - 1), 12, connection)
    assert len(cluster.partition("t").watchers) == 2000
    cluster.produce("t", b"b")
    cluster.shell.advance(1)  # it takes some steps
    assert all(len(cluster.frames(connection)) == 1 for connection in connections)
    assert len(cluster.partition("t").watchers) == 0
    for round_ in range(3):
        for connection in connections:
            cluster.send(
                cluster.fetch_request("t", round_ + 2, max_wait_ms=(1 << 31) - 1), 12, connection
            )
        cluster.produce("t", b"b")
        cluster.shell.advance(1)
    assert len(cluster.broker.purgatory) < 6000
    for connection in connections:
        cluster.send(cluster.fetch_request("t", 5, max_wait_ms=1 << 30), 12, connection)
        cluster.shell.disconnect(connection)
    assert len(cluster.partition("t").watchers) == 0
    assert cluster.shell.node is not None
    assert not cluster.shell.node.is_busy


def test_sessions_are_bounded() -> None:
    cluster = Cluster(max_incremental_fetch_session_cache_slots="10")
    cluster.create_topic("t")
    for _ in range(50):
        cluster.ask(cluster.fetch_request("t", 0, session_epoch=0), 12)
    assert len(cluster.broker.fetch_sessions) == 10
    assert len(cluster.partition("t").watchers) == 10
