"""Admin calls: the controller is found, results are told apart, pages are followed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.memory import MemoryBroker, MemoryCluster, MemoryShell, topic_id

from tidelog.client import Address, UnknownBroker, UnsupportedByBroker
from tidelog.client.admin import DescribedBroker, describe_cluster, describe_log_dirs
from tidelog.client.configs import (
    Change,
    ConfigOperation,
    ConfigSource,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from tidelog.client.errors import BrokerError, ConnectionFailed
from tidelog.client.topics import (
    MorePartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topics,
    list_topics,
)
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tidelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from tidelog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


@pytest.fixture
def memory() -> MemoryCluster:
    return MemoryCluster(brokers=3)


@pytest.fixture
def shell(memory: MemoryCluster) -> MemoryShell:
    return MemoryShell(memory)


def test_topics_are_created_by_the_controller(memory, shell):
    def create(broker: MemoryBroker, request: Any) -> CreateTopicsResponse:
        results = tuple(
            CreatableTopicResult(
                name=topic.name,
                error_code=36 if topic.name == "old" else 0,
                error_message="Topic 'old' already exists." if topic.name == "old" else None,
            )
            for topic in request.topics
        )
        return CreateTopicsResponse(topics=results)

    memory.handle(ApiKey.CREATE_TOPICS, create)
    new = NewTopic("new", assignments=((1, 2), (2, 3)), configs={"retention.ms": "5"})
    results = shell.run(create_topics, [new, NewTopic("old", 3, 2)])
    assert results["new"] is None
    assert str(results["old"]) == "topic old: Topic 'old' already exists."
    (request,) = memory.brokers[1].asked(ApiKey.CREATE_TOPICS)
    placed, counted = request.topics
    assert [a.broker_ids for a in placed.assignments] == [(1, 2), (2, 3)]
    assert (placed.num_partitions, placed.replication_factor) == (-1, -1)
    assert [(c.name, c.value) for c in placed.configs] == [("retention.ms", "5")]
    assert (counted.num_partitions, counted.replication_factor) == (3, 2)


def test_a_controller_that_moved_is_asked_only_for_what_is_left(memory, shell):
    codes = [{"a": 0, "b": 41}, {"b": 0}]

    def delete(broker: MemoryBroker, request: Any) -> DeleteTopicsResponse:
        now = codes.pop(0)
        assert [topic.name for topic in request.topics] == list(now)
        return DeleteTopicsResponse(
            responses=tuple(
                DeletableTopicResult(name=name, error_code=code) for name, code in now.items()
            )
        )

    memory.handle(ApiKey.DELETE_TOPICS, delete)
    assert shell.run(delete_topics, ["a", "b"]) == {"a": None, "b": None}


def test_a_dead_controller_is_replaced_by_any_broker(memory, shell):
    shell.run(list_topics)
    memory.alive.discard(1)
    answer = CreatePartitionsResponse(
        results=(CreatePartitionsTopicResult(name="a", error_code=0),)
    )
    memory.handle(ApiKey.CREATE_PARTITIONS, lambda *_: answer)
    assert shell.run(create_partitions, [MorePartitions("a", 4)]) == {"a": None}
    request = memory.brokers[2].asked(ApiKey.CREATE_PARTITIONS)[0]
    assert request.topics[0].assignments is None


def test_topics_are_described_page_by_page(memory, shell):
    memory.leaders |= {"a": {0: (1, 0)}, "b": {0: (1, 0), 1: (2, 3)}}

    def describe(broker: MemoryBroker, request: Any) -> DescribeTopicPartitionsResponse:
        start = (
            (request.cursor.topic_name, request.cursor.partition_index) if request.cursor else ()
        )
        pages = [("a", 0), ("b", 0), ("b", 1)]
        names = {topic.name for topic in request.topics}
        left = [page for page in pages if page >= start and page[0] in names]
        name, index = left[0]
        partition = DescribeTopicPartitionsResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=1,
            replica_nodes=(),
            isr_nodes=(),
            eligible_leader_replicas=(index + 1,),
            offline_replicas=(),
        )
        topic = DescribeTopicPartitionsResponseTopic(
            error_code=0, name=name, topic_id=topic_id(name), partitions=(partition,)
        )
        cursor = None
        if left[1:]:
            cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=left[1][0], partition_index=left[1][1]
            )
        return DescribeTopicPartitionsResponse(topics=(topic,), next_cursor=cursor)

    memory.handle(ApiKey.DESCRIBE_TOPIC_PARTITIONS, describe)
    found = shell.run(describe_topics, ["b", "a", "nope"])
    assert list(found) == ["a", "b"]
    elr = [p.eligible_leader_replicas for t in found.values() for p in t.partitions]
    assert elr == [(1,), (1,), (2,)]
    assert found["b"].partitions[1].leader_epoch == 3
    assert found["b"].topic_id == topic_id("b")
    shell.run(describe_topics, ["a"], partitions_a_page=7)
    asked = [
        m for one in memory.brokers.values() for m in one.asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    ]
    assert {m.response_partition_limit for m in asked} == {2000, 7}


def test_an_older_broker_describes_topics_too(memory, shell):
    memory.leaders["a"] = {0: (1, 0)}
    for broker in memory.brokers.values():
        del broker.served[ApiKey.DESCRIBE_TOPIC_PARTITIONS]
    (partition,) = shell.run(describe_topics, ["a"])["a"].partitions
    assert partition.eligible_leader_replicas is None


def config(name: str, value: str | None, source: int) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=value is None,
        synonyms=(DescribeConfigsSynonym(name=f"log.{name}", value=value, source=5),),
    )


def test_a_brokers_configs_are_asked_of_itself(memory, shell):
    def describe(broker: MemoryBroker, request: Any) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=0,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=(
                        config("z", str(broker.address.port), 2),
                        config("a", None, 99),
                    ),
                )
                for resource in request.resources
            )
        )

    memory.handle(ApiKey.DESCRIBE_CONFIGS, describe)
    third, topic = Resource(ResourceType.BROKER, "3"), Resource(ResourceType.TOPIC, "orders")
    found = shell.run(describe_configs, [third, topic])
    assert [entry.name for entry in found[third]] == ["a", "z"]
    assert found[third][1].value == "3"
    assert found[third][1].source is ConfigSource.DYNAMIC_BROKER_CONFIG
    assert found[third][0].source is ConfigSource.UNKNOWN
    assert set(found) == {third, topic}
    assert memory.brokers[1].asked(ApiKey.DESCRIBE_CONFIGS) == []
    with pytest.raises(UnknownBroker, match="no broker 9; the brokers are 1, 2, 3"):
        shell.run(describe_configs, [Resource(ResourceType.BROKER, "9")])


def test_changes_are_sent_as_they_are_and_refusals_name_the_resource(memory, shell):
    def alter(broker: MemoryBroker, request: Any) -> IncrementalAlterConfigsResponse:
        (resource,) = request.resources
        changes = [(c.name, c.config_operation, c.value) for c in resource.configs]
        assert changes == [("retention.ms", 0, "x"), ("segment.ms", 1, None)]
        result = AlterConfigsResourceResponse(
            error_code=40, error_message="not a number", resource_type=2, resource_name="orders"
        )
        return IncrementalAlterConfigsResponse(responses=(result,))

    memory.handle(ApiKey.INCREMENTAL_ALTER_CONFIGS, alter)
    orders = Resource(ResourceType.TOPIC, "orders")
    changes = [
        Change("retention.ms", ConfigOperation.SET, "x"),
        Change("segment.ms", ConfigOperation.DELETE),
    ]
    error = shell.run(alter_configs, {orders: changes})[orders]
    assert error.code is ErrorCode.INVALID_CONFIG
    assert str(error) == "topic orders: not a number"


@pytest.mark.parametrize("last", [0, 2])
def test_the_cluster_is_described_by_older_brokers_too(memory, shell, last):
    for broker in memory.brokers.values():
        broker.served[ApiKey.DESCRIBE_CLUSTER] = (0, last)
    brokers = (
        DescribeClusterBroker(broker_id=2, host="b", port=2),
        DescribeClusterBroker(broker_id=1, host="a", port=1, is_fenced=last == 2),
    )
    answer = DescribeClusterResponse(
        error_code=0, cluster_id="memory", controller_id=1, brokers=brokers
    )
    memory.handle(ApiKey.DESCRIBE_CLUSTER, lambda *_: answer)
    described = shell.run(describe_cluster)
    assert described.brokers == (
        DescribedBroker(1, Address("a", 1), None, last == 2),
        DescribedBroker(2, Address("b", 2), None, False),
    )


def test_an_api_that_no_broker_has_is_an_error_at_once(memory, shell):
    for broker in memory.brokers.values():
        del broker.served[ApiKey.DESCRIBE_CLUSTER]
    with pytest.raises(UnsupportedByBroker, match="no version of DescribeCluster"):
        shell.run(describe_cluster)
    assert shell.pauses == []


def test_every_broker_is_asked_for_its_log_directories(memory, shell):
    def describe(broker: MemoryBroker, request: Any) -> DescribeLogDirsResponse:
        path = f"/data/{broker.address.port}"
        code = 31 if broker.address.port == 2 else 0
        result = DescribeLogDirsResult(error_code=0, log_dir=path, topics=())
        return DescribeLogDirsResponse(error_code=code, results=(result,))

    memory.handle(ApiKey.DESCRIBE_LOG_DIRS, describe)
    shell.run(list_topics)
    metadata = memory.metadata
    for broker in memory.brokers.values():  # broker 3 died, and nobody has noticed yet
        broker.handlers[ApiKey.METADATA] = lambda request: (
            memory.alive.add(3),
            metadata(request),
            memory.alive.discard(3),
        )[1]
    found = shell.run(describe_log_dirs)
    assert found[1][0].log_dir == "/data/1"
    assert isinstance(found[2], BrokerError)
    assert isinstance(found[3], ConnectionFailed)
    with pytest.raises(UnknownBroker, match="no broker 9"):
        shell.run(describe_log_dirs, [9])
