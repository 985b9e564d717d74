"""Metadata, DescribeTopicPartitions and DescribeCluster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node_client import Cluster

from tidelog.errors import ErrorCode
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.messages import describe_cluster, describe_topic_partitions, metadata
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

NOT_ASKED = -(1 << 31)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("b", 2)
    cluster.create_topic("a")
    return cluster


def topic(**fields: Any) -> Any:
    return metadata.MetadataRequestTopic(**({"name": None} | fields))


@pytest.mark.parametrize("version", range(14))
def test_every_version_tells_who_leads(cluster: Cluster, version: int) -> None:
    response = cluster.metadata("b", version=version)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9092)]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (cluster.broker.cluster_id if version >= 2 else None)
    (found,) = response.topics
    assert (found.error_code, found.name, found.is_internal) == (0, "b", False)
    assert found.topic_id == (cluster.topic_id("b") if version >= 10 else ZERO_UUID)
    assert [p.partition_index for p in found.partitions] == [0, 1]
    for partition in found.partitions:
        assert (partition.error_code, partition.leader_id) == (0, 1)
        assert (partition.replica_nodes, partition.isr_nodes) == ((1,), (1,))
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert partition.offline_replicas == ()


def test_all_topics_and_none(cluster: Cluster) -> None:
    def names(topics: Any, version: int) -> list[str]:
        response = cluster.ask(metadata.MetadataRequest(topics=topics), version)
        return sorted(found.name for found in response.topics)

    assert names((), 0) == ["a", "b"]
    assert names((), 1) == names((), 13) == []
    assert names(None, 1) == names(None, 13) == ["a", "b"]


def test_topics_by_id(cluster: Cluster) -> None:
    topic_id = cluster.topic_id("a")
    request = metadata.MetadataRequest(
        topics=(topic(topic_id=topic_id), topic(topic_id=b"x" * 16), topic())
    )
    known, unknown, nameless = cluster.ask(request, 12).topics
    assert (known.error_code, known.name, known.topic_id) == (0, "a", topic_id)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    assert nameless.error_code == ErrorCode.INVALID_REQUEST
    for version in (10, 11):
        by_id = metadata.MetadataRequest(topics=(topic(topic_id=topic_id), topic(name="a")))
        response = cluster.ask(by_id, version)
        assert [found.error_code for found in response.topics] == [ErrorCode.INVALID_REQUEST] * 2


def test_asking_for_a_topic_makes_it(cluster: Cluster) -> None:
    first = cluster.metadata("new")
    assert first.topics[0].error_code == UNKNOWN
    assert cluster.metadata("new", allow_auto_topic_creation=False).topics[0].error_code == UNKNOWN
    cluster.shell.advance(100)
    (made,) = cluster.metadata("new").topics
    assert (made.error_code, len(made.partitions)) == (0, 1)
    assert cluster.produce("new", b"a").base_offset == 0


def test_it_is_made_once_with_the_brokers_defaults() -> None:
    cluster = Cluster(num_partitions="3")
    cluster.metadata("new", "new")
    end = cluster.broker.metadata.log.log_end_offset
    cluster.metadata("new")
    assert cluster.broker.metadata.log.log_end_offset == end
    cluster.shell.advance(100)
    assert len(cluster.metadata("new").topics[0].partitions) == 3


def test_it_is_not_made_if_the_client_or_the_broker_does_not_want_it(cluster: Cluster) -> None:
    refused = cluster.metadata("new", allow_auto_topic_creation=False)
    assert refused.topics[0].error_code == UNKNOWN
    strict = Cluster(auto_create_topics_enable="false")
    assert strict.metadata("new").topics[0].error_code == UNKNOWN
    for one in (cluster, strict):
        one.shell.advance(1000)
        assert "new" not in one.broker.image.topics


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250, "ä"])
@pytest.mark.parametrize("is_made", [True, False])
def test_illegal_names(cluster: Cluster, name: str, is_made: bool) -> None:
    response = cluster.metadata(name, allow_auto_topic_creation=is_made)
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert response.topics[0].name == name


def test_authorized_operations_are_told_if_asked(cluster: Cluster) -> None:
    def ask(version: int, **fields: bool) -> Any:
        return cluster.metadata("a", version=version, **fields)

    plain = ask(13)
    assert plain.topics[0].topic_authorized_operations == NOT_ASKED
    asked = ask(13, include_topic_authorized_operations=True)
    assert asked.topics[0].topic_authorized_operations == 3576
    assert ask(8).cluster_authorized_operations == NOT_ASKED
    of_cluster = ask(8, include_cluster_authorized_operations=True)
    assert of_cluster.cluster_authorized_operations == 8096


def describe(cluster: Cluster, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
    if cursor is not None:
        cursor = describe_topic_partitions.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return cluster.ask(
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=tuple(describe_topic_partitions.TopicRequest(name=name) for name in names),
            response_partition_limit=limit,
            cursor=cursor,
        )
    )


def shown(response: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    cursor = response.next_cursor
    return [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics], (
        None if cursor is None else (cursor.topic_name, cursor.partition_index)
    )


def test_topics_are_described_page_by_page() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.create_topic(name, 3)
    assert shown(describe(cluster)) == ([(n, [0, 1, 2]) for n in "abc"], None)
    pages, cursor = [], None
    while True:
        page, cursor = shown(describe(cluster, limit=2, cursor=cursor))
        pages.append(page)
        if cursor is None:
            break
    assert pages == [
        [("a", [0, 1])],
        [("a", [2]), ("b", [0])],
        [("b", [1, 2])],
        [("c", [0, 1])],
        [("c", [2])],
    ]
    assert shown(describe(cluster, limit=0)) == ([("a", [0])], ("a", 1))
    assert shown(describe(cluster, "b", cursor=("b", 9))) == ([("b", [])], None)
    assert shown(describe(cluster, cursor=("a", -1))) == ([], None)


def test_topics_are_described_by_name(cluster: Cluster) -> None:
    response = describe(cluster, "zz", "b", "no such", "a")
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("a", 0),
        ("b", 0),
        ("no such", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("zz", UNKNOWN),
    ]
    known = response.topics[0]
    assert known.topic_id == cluster.topic_id("a")
    assert known.topic_authorized_operations == 3576
    (partition,) = known.partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 0)
    assert (partition.replica_nodes, partition.isr_nodes) == ((1,), (1,))
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())
    assert shown(describe(cluster, "b", "zz", limit=2))[1] == ("zz", 0)


def cluster_request(**fields: Any) -> Any:
    fields = {"include_cluster_authorized_operations": False} | fields
    return describe_cluster.DescribeClusterRequest(**fields)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described(cluster: Cluster, version: int) -> None:
    found = cluster.ask(cluster_request(), version)
    assert (found.error_code, found.endpoint_type, found.controller_id) == (0, 1, 1)
    assert found.cluster_id == cluster.broker.cluster_id
    assert [(b.broker_id, b.host, b.port) for b in found.brokers] == [(1, "127.0.0.1", 9092)]
    assert found.cluster_authorized_operations == NOT_ASKED
    asked = cluster.ask(cluster_request(include_cluster_authorized_operations=True), version)
    assert asked.cluster_authorized_operations == 8096


def test_each_listener_describes_its_own_kind(cluster: Cluster) -> None:
    controller = cluster.shell.connect("CONTROLLER")
    found = cluster.ask(cluster_request(endpoint_type=2), connection=controller)
    assert (found.error_code, found.endpoint_type) == (0, 2)
    assert [(b.broker_id, b.port) for b in found.brokers] == [(1, 9093)]
    for connection, kind in ((cluster.connection, 2), (controller, 1)):
        refused = cluster.ask(cluster_request(endpoint_type=kind), connection=connection)
        assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        assert (refused.brokers, refused.cluster_id) == ((), "")
    old = cluster.ask(cluster_request(), 0, connection=controller)
    assert old.error_code == ErrorCode.INVALID_REQUEST
    unheard = cluster.ask(cluster_request(endpoint_type=3))
    assert unheard.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_fenced_brokers_are_described_where_asked_for(cluster: Cluster) -> None:
    controller = cluster.shell.connect("CONTROLLER")
    listener = Listener(name="PLAINTEXT", host="h", port=7, security_protocol=0)
    registration = BrokerRegistrationRequest(
        broker_id=2,
        cluster_id=cluster.broker.cluster_id,
        incarnation_id=Uuid(b"2" * 16),
        listeners=(listener,),
        features=tuple(
            Feature(name=name, min_supported_version=0, max_supported_version=30)
            for name in cluster.broker.image.features
        ),
        rack="r",
        log_dirs=(Uuid(b"d" * 16),),
    )
    assert cluster.ask(registration, connection=controller).error_code == 0
    (alone,) = cluster.ask(cluster_request()).brokers
    assert (alone.broker_id, alone.is_fenced) == (1, False)
    found = cluster.ask(cluster_request(include_fenced_brokers=True)).brokers
    assert [(b.broker_id, b.host, b.rack, b.is_fenced) for b in found] == [
        (1, "127.0.0.1", None, False),
        (2, "h", "r", True),
    ]
