"""DescribeLogDirs, DescribeProducers, FindCoordinator, InitProducerId, ApiVersions,
UpdateFeatures."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.transactions import ABORT, end, write
from tests.unit.node_client import Cluster, highest_version

from tidelog.broker.router import HANDLERS
from tidelog.controller.producer_ids import BLOCK_SIZE
from tidelog.errors import ErrorCode
from tidelog.quorum_controller.router import CONTROLLER_SERVED
from tidelog.wire.api import APIS
from tidelog.wire.messages import (
    api_versions,
    describe_log_dirs,
    describe_producers,
    find_coordinator,
    init_producer_id,
    update_features,
)

INIT_PRODUCER_ID = 22


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("t", 2)
    return cluster


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_are_described(cluster: Cluster, version: int) -> None:
    cluster.create_topic("u")
    cluster.produce("t", b"a", partition=1)

    def sizes(topics: Any) -> dict[tuple[str, int], int]:
        request = describe_log_dirs.DescribeLogDirsRequest(topics=topics)
        (result,) = cluster.ask(request, version).results
        assert (result.error_code, result.log_dir) == (0, "data")
        if version >= 4:
            assert result.total_bytes == 1 << 40
            assert 0 < result.usable_bytes < 1 << 40
        return {
            (topic.name, partition.partition_index): partition.partition_size
            for topic in result.topics
            for partition in topic.partitions
        }

    size = len(cluster.batch(b"a"))
    assert sizes(None) == {("t", 0): 0, ("t", 1): size, ("u", 0): 0}
    some = describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=(1, 9))
    assert sizes((some,)) == {("t", 1): size}
    assert sizes(()) == {}


def test_producers_are_described(cluster: Cluster) -> None:
    def ask(*indexes: int, topic: str = "t") -> Any:
        asked = describe_producers.TopicRequest(name=topic, partition_indexes=indexes)
        request = describe_producers.DescribeProducersRequest(topics=(asked,))
        return cluster.ask(request).topics[0].partitions

    cluster.produce("t", b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=0)
    write(cluster, 9, 0, b"open")
    empty, unknown = ask(1, 5)
    assert (empty.error_code, empty.active_producers) == (0, ())
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(0, topic="u")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (partition,) = ask(0)
    first, second = partition.active_producers
    assert (first.producer_id, first.producer_epoch, first.last_sequence) == (7, 2, 1)
    assert (first.last_timestamp, first.current_txn_start_offset) == (cluster.shell.now.wall_ms, -1)
    assert (second.producer_id, second.current_txn_start_offset) == (9, 2)
    end(cluster, 9, ABORT)
    assert ask(0)[0].active_producers[1].current_txn_start_offset == -1


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_there_is_no_coordinator_yet(cluster: Cluster, version: int, key_type: int) -> None:
    if version == 0 and key_type:
        return
    fields: Any = {"coordinator_keys": ("g", "h")} if version >= 4 else {"key": "g"}
    if version:
        fields["key_type"] = key_type
    response = cluster.ask(find_coordinator.FindCoordinatorRequest(**fields), version)
    answers = response.coordinators if version >= 4 else (response,)
    assert [answer.error_code for answer in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(
        answers
    )
    assert [answer.node_id for answer in answers] == [-1] * len(answers)
    if version >= 4:
        assert [answer.key for answer in answers] == ["g", "h"]


def test_unknown_kinds_of_coordinators(cluster: Cluster) -> None:
    batched = find_coordinator.FindCoordinatorRequest(key_type=9, coordinator_keys=("a",))
    (answer,) = cluster.ask(batched).coordinators
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    single = find_coordinator.FindCoordinatorRequest(key="a", key_type=9)
    assert cluster.ask(single, 1).error_code == ErrorCode.INVALID_REQUEST


# Producer ids.


def producer_id(cluster: Cluster, version: int | None = None, **fields: Any) -> Any:
    fields = {"transactional_id": None, "transaction_timeout_ms": 1000} | fields
    return cluster.ask(init_producer_id.InitProducerIdRequest(**fields), version)


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_an_id(cluster: Cluster, version: int) -> None:
    first, second = producer_id(cluster, version), producer_id(cluster, version)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert second.producer_id == first.producer_id + 1


def test_ids_are_never_given_twice(cluster: Cluster) -> None:
    given = [producer_id(cluster).producer_id for _ in range(3)]
    cluster.restart()
    given.append(producer_id(cluster).producer_id)
    cluster.crash()
    given += [producer_id(cluster).producer_id for _ in range(BLOCK_SIZE + 1)]
    assert len(set(given)) == len(given)
    assert given[:4] == [0, 1, 2, BLOCK_SIZE]
    assert cluster.broker.image.next_producer_id == 4 * BLOCK_SIZE


def test_the_first_id_waits_until_its_block_is_durable(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (5, 5)
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1
    )
    connections = [cluster.shell.connect() for _ in range(3)]
    for connection in connections:
        cluster.send(request, None, connection)
    cluster.shell.advance(4)
    assert all(cluster.frames(connection) == [] for connection in connections)
    cluster.shell.advance(1)
    answers = [cluster.take(INIT_PRODUCER_ID, None, connection) for connection in connections]
    assert [answer.producer_id for (answer,) in answers] == [0, 1, 2]


def test_a_block_that_does_not_come(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (60_000, 60_000)
    answer = cluster.ask(
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
        wait_ms=30_000,
    )
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_no_room_for_a_block(cluster: Cluster) -> None:
    disk = cluster.shell.disk
    capacity, disk.capacity_bytes = disk.capacity_bytes, disk.capacity_bytes - disk.free_bytes
    assert producer_id(cluster).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    disk.capacity_bytes = capacity
    assert producer_id(cluster).error_code == 0


def test_init_producer_id_refuses(cluster: Cluster) -> None:
    def code(**fields: Any) -> ErrorCode:
        return ErrorCode(producer_id(cluster, **fields).error_code)

    assert code(transactional_id="") == ErrorCode.INVALID_REQUEST
    assert code(transactional_id="x") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code(producer_id=5) == ErrorCode.INVALID_REQUEST
    assert code(producer_epoch=5) == ErrorCode.INVALID_REQUEST
    assert code(producer_id=5, producer_epoch=5) == ErrorCode.NONE


# Versions and features.


def versions(cluster: Cluster, version: int | None = None, **fields: Any) -> Any:
    names: Any = {"client_software_name": "a", "client_software_version": "1"} | fields
    if version is not None and version < 3:
        names = {}
    return cluster.ask(api_versions.ApiVersionsRequest(**names), version)


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_what_is_served(cluster: Cluster, version: int) -> None:
    response = versions(cluster, version)
    served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert set(served) == set(HANDLERS)
    for key, (first, last) in served.items():
        assert first == (0 if key == 0 else APIS[key].versions[0])
        assert last == highest_version(key)
    if version >= 3:
        finalized = {f.name: f.max_version_level for f in response.finalized_features}
        assert finalized["metadata.version"] >= 25
        minima = [feature.min_version for feature in response.supported_features]
        assert min(minima) == (0 if version >= 4 else 1)


def test_the_controllers_listener_serves_less(cluster: Cluster) -> None:
    connection = cluster.shell.connect("CONTROLLER")
    request = api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    response = cluster.ask(request, connection=connection)
    assert {api.api_key for api in response.api_keys} == set(CONTROLLER_SERVED)
    cluster.send(cluster.produce_request("t", b""), 9, connection)
    assert connection in cluster.shell.closed


@pytest.mark.parametrize("name", ["", "-a", "a b", "ä"])
def test_software_names_are_checked(cluster: Cluster, name: str) -> None:
    for fields in ({"client_software_name": name}, {"client_software_version": name}):
        response = versions(cluster, None, **fields)
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, ())


def test_a_version_of_the_future_gets_version_0(cluster: Cluster) -> None:
    header = b"\x00\x12\x00\x63" + (7).to_bytes(4, "big") + b"\xff\xff\x00"
    cluster.shell.send(cluster.connection, len(header).to_bytes(4, "big") + header)
    (answer,) = cluster.take(18, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(a.api_key, a.min_version, a.max_version) for a in answer.api_keys] == [(18, 0, 4)]


def test_what_is_not_served_closes_the_connection(cluster: Cluster) -> None:
    header = b"\x00\x0b\x00\x00" + (7).to_bytes(4, "big") + b"\xff\xff"
    cluster.shell.send(cluster.connection, len(header).to_bytes(4, "big") + header)
    assert "11" in cluster.shell.closed[cluster.connection]


@pytest.mark.parametrize("version", range(3))
def test_features_change_and_stay(cluster: Cluster, version: int) -> None:
    def update(name: str, level: int) -> Any:
        fields: Any = {"upgrade_type": 3} if version else {"allow_downgrade": True}
        key = update_features.FeatureUpdateKey(feature=name, max_version_level=level, **fields)
        request = update_features.UpdateFeaturesRequest(feature_updates=(key,))
        return cluster.ask(request, version).error_code

    assert update("group.version", 0) == 0
    assert update("no.such.version", 1) == ErrorCode.INVALID_UPDATE_VERSION
    assert update("group.version", 99) == ErrorCode.INVALID_UPDATE_VERSION
    for _ in range(2):
        finalized = {f.name: f.max_version_level for f in versions(cluster).finalized_features}
        assert finalized.get("group.version", 0) == 0
        cluster.crash()


def test_the_voters_of_a_quorum_get_into_its_log(cluster: Cluster) -> None:
    def update(level: int, kind: int) -> Any:
        key = update_features.FeatureUpdateKey(
            feature="kraft.version", max_version_level=level, upgrade_type=kind
        )
        request = update_features.UpdateFeaturesRequest(feature_updates=(key,))
        return cluster.ask(request).error_code

    assert update(0, 1) == 0
    assert "kraft.version" not in {f.name for f in versions(cluster).finalized_features}
    for _ in range(2):
        assert update(1, 1) == 0
        finalized = {f.name: f.max_version_level for f in versions(cluster).finalized_features}
        assert finalized["kraft.version"] == 1
        cluster.crash()
    assert update(0, 3) == ErrorCode.INVALID_UPDATE_VERSION


def test_a_feature_that_is_not_committed_in_time(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (500, 500)
    key = update_features.FeatureUpdateKey(
        feature="group.version", max_version_level=0, upgrade_type=3
    )
    request = update_features.UpdateFeaturesRequest(feature_updates=(key,), timeout_ms=100)
    assert cluster.ask(request).error_code == ErrorCode.REQUEST_TIMED_OUT
