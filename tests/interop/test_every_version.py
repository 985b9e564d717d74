"""Every version of every request that a node advertises, answered as Apache Kafka answers it.

Clients of today use few of the versions; these are the others, of clients of years ago and to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.apache import ApacheNode
from tests.interop.exchange import Exchange, comparable
from tests.interop.suite import SECONDS_MAX, TIMESTAMP_MS
from tidelog.broker.router import SERVED
from tidelog.types import ZERO_UUID
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.declare import Message
from tidelog.wire.messages import (
    add_raft_voter,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
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
)

pytestmark = pytest.mark.interop
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
Answers = list[Message]
Conversation = Callable[[Exchange, str, int], Answers]
CREATE_VERSION = 7
PRODUCE_VERSION = 9
TIMEOUT_MS = SECONDS_MAX * 1000


@pytest.fixture(scope="module")
def apache() -> Iterator[Exchange]:
    with ApacheNode() as node, Exchange(node.bootstrap_servers) as exchange:
        yield exchange


@pytest.fixture(scope="module")
def ours(bootstrap_servers: str) -> Iterator[Exchange]:
    with Exchange(bootstrap_servers) as exchange:
        yield exchange


def creation(topic: str, partitions: int = 1, factor: int = 1, **configs: str) -> Message:
    settings = tuple(
        create_topics.CreatableTopicConfig(name=name.replace("_", "."), value=value)
        for name, value in configs.items()
    )
    wanted = create_topics.CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=(),
        configs=settings,
    )
    return create_topics.CreateTopicsRequest(topics=(wanted,), timeout_ms=TIMEOUT_MS)


def batch(records: int) -> bytes:
    builder = BatchBuilder()
    for i in range(records):
        builder.append(b"%d" % i, b"value", timestamp=TIMESTAMP_MS + i)
    return bytes(builder.build())


def production(topic: str, topic_id: bytes, records: bytes, acks: int = -1) -> Message:
    data = (produce.PartitionProduceData(index=0, records=records),)
    there = produce.TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)
    return produce.ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=(there,))


def created(exchange: Exchange, topic: str, partitions: int = 1, **configs: str) -> bytes:
    """The id of a new topic that the broker knows."""
    exchange.ask(creation(topic, partitions, **configs), CREATE_VERSION)
    return exchange.topic_id(topic)


def filled(exchange: Exchange, topic: str) -> bytes:
    """The id of a new topic of one partition with 10 records in two batches."""
    topic_id = created(exchange, topic)
    for _ in range(2):
        request = production(topic, ZERO_UUID, batch(5))
        exchange.ask_until(request, PRODUCE_VERSION, is_produced)
    return topic_id


def is_produced(answer: Any) -> bool:
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def producing(exchange: Exchange, topic: str, version: int) -> Answers:
    topic_id = created(exchange, topic)
    request = production(topic, topic_id, batch(3))
    first = exchange.ask_until(request, version, is_produced)
    broken = bytearray(batch(3))
    broken[-1] ^= 1
    unknown = production("no-such-topic", b"\1" * 16, batch(1))
    requests = [
        production(topic, topic_id, batch(3), acks=1),
        production(topic, topic_id, bytes(broken)),
        unknown,
    ]
    return [first, *(exchange.ask(message, version) for message in requests)]


def fetching(exchange: Exchange, topic: str, version: int) -> Answers:
    topic_id = filled(exchange, topic)

    def from_offset(offset: int, partition: int = 0, epoch: int = -1) -> Message:
        place = fetch.FetchPartition(
            partition=partition,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            partition_max_bytes=1 << 20,
        )
        there = fetch.FetchTopic(topic=topic, topic_id=topic_id, partitions=(place,))
        return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=(there,))

    requests = [from_offset(offset) for offset in (0, 7, 10, 11, -1)]
    requests += [from_offset(0, partition=9), from_offset(0, epoch=0), from_offset(0, epoch=77)]
    return [exchange.ask(request, version) for request in requests]


def listing_offsets(exchange: Exchange, topic: str, version: int) -> Answers:
    filled(exchange, topic)

    def at(timestamp: int, partition: int = 0) -> Message:
        place = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        there = list_offsets.ListOffsetsTopic(name=topic, partitions=(place,))
        return list_offsets.ListOffsetsRequest(replica_id=-1, topics=(there,))

    # Which special timestamps there are depends on the version; others are refused.
    times = [*range(-1, -8, -1), TIMESTAMP_MS, TIMESTAMP_MS + 3, TIMESTAMP_MS + 99, -99]
    requests = [*(at(timestamp) for timestamp in times), at(-1, partition=5)]
    return [exchange.ask(request, version) for request in requests]


def asking_for_metadata(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic, partitions=3)

    def about(name: str) -> Message:
        named = (metadata.MetadataRequestTopic(name=name),)
        may_create = version < 4
        return metadata.MetadataRequest(topics=named, allow_auto_topic_creation=may_create)

    names = [topic] if version < 4 else [topic, "no-such-topic", "not/a/name"]
    return [exchange.ask(about(name), version) for name in names]


def creating_topics(exchange: Exchange, topic: str, version: int) -> Answers:
    requests = [
        creation(topic, partitions=2, retention_ms="1000"),
        creation(topic),
        creation(f"{topic}-factor", factor=3),
        creation(f"{topic}-partitions", partitions=0),
        creation(f"{topic}-config", retention_ms="x"),
        creation("not/a/name"),
    ]
    requests += [creation(f"{topic}-default", partitions=-1, factor=-1)] if version >= 4 else []
    return [exchange.ask(request, version) for request in requests]


def deleting_topics(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic)

    def deletion(name: str) -> Message:
        if version >= 6:
            state = delete_topics.DeleteTopicState(name=name, topic_id=ZERO_UUID)
            return delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=TIMEOUT_MS)
        return delete_topics.DeleteTopicsRequest(topic_names=(name,), timeout_ms=TIMEOUT_MS)

    return [exchange.ask(deletion(name), version) for name in (topic, "no-such-topic")]


def deleting_records(exchange: Exchange, topic: str, version: int) -> Answers:
    filled(exchange, topic)

    def up_to(offset: int, partition: int = 0) -> Message:
        place = delete_records.DeleteRecordsPartition(partition_index=partition, offset=offset)
        there = delete_records.DeleteRecordsTopic(name=topic, partitions=(place,))
        return delete_records.DeleteRecordsRequest(topics=(there,), timeout_ms=TIMEOUT_MS)

    requests = [up_to(3), up_to(2), up_to(11), up_to(-1), up_to(-7), up_to(0, partition=4)]
    return [exchange.ask(request, version) for request in requests]


def asking_for_epochs(exchange: Exchange, topic: str, version: int) -> Answers:
    filled(exchange, topic)

    def end_of(epoch: int, current: int = -1) -> Message:
        place = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=current, leader_epoch=epoch
        )
        there = offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic, partitions=(place,))
        return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=(there,))

    requests = [end_of(0), end_of(5), end_of(-1), end_of(0, current=9)]
    return [exchange.ask(request, version) for request in requests]


def describing_configs(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic, retention_ms="1000")

    def about(kind: int, name: str, *keys: str) -> Message:
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys or None
        )
        return describe_configs.DescribeConfigsRequest(resources=(resource,), include_synonyms=True)

    requests = [
        about(TOPIC_RESOURCE, topic, "retention.ms", "cleanup.policy", "max.message.bytes"),
        about(TOPIC_RESOURCE, topic),
        about(TOPIC_RESOURCE, "no-such-topic"),
        about(BROKER_RESOURCE, "1", "node.id", "log.retention.hours", "num.partitions"),
    ]
    return [sorted_configs(exchange.ask(request, version)) for request in requests]


def sorted_configs(answer: Any) -> Message:
    """The order is that of a hash table in Apache Kafka."""
    results = tuple(
        result.replace(configs=tuple(sorted(result.configs, key=lambda config: config.name)))
        for result in answer.results
    )
    changed: Message = answer.replace(results=results)
    return changed


def altering_configs(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic)

    def change(name: str, **configs: str) -> Message:
        entries = tuple(
            alter_configs.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        )
        resource = alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configs=entries
        )
        return alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=False)

    requests = [
        change(topic, retention_ms="5000"),
        change(topic, retention_ms="never"),
        change(topic, no_such="1"),
        change("no-such-topic", retention_ms="5000"),
    ]
    return [exchange.ask(request, version) for request in requests]


def altering_incrementally(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic)

    def change(operation: int, key: str, value: str | None) -> Message:
        entry = incremental_alter_configs.AlterableConfig(
            name=key, config_operation=operation, value=value
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=(entry,)
        )
        return incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )

    requests = [
        change(0, "retention.ms", "5000"),
        change(1, "retention.ms", None),
        change(2, "cleanup.policy", "compact"),
        change(3, "cleanup.policy", "delete"),
        change(2, "retention.ms", "1"),
        change(0, "retention.ms", None),
        change(0, "segment.bytes", "-4"),
    ]
    return [exchange.ask(request, version) for request in requests]


def creating_partitions(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic, partitions=2)

    def grow(name: str, count: int) -> Message:
        wanted = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
        return create_partitions.CreatePartitionsRequest(
            topics=(wanted,), timeout_ms=TIMEOUT_MS, validate_only=False
        )

    requests = [grow(topic, 4), grow(topic, 4), grow(topic, 1), grow("no-such-topic", 3)]
    return [exchange.ask(request, version) for request in requests]


def describing_log_dirs(exchange: Exchange, topic: str, version: int) -> Answers:
    filled(exchange, topic)
    there = describe_log_dirs.DescribableLogDirTopic(topic=topic, partitions=(0,))
    return [exchange.ask(describe_log_dirs.DescribeLogDirsRequest(topics=(there,)), version)]


def describing_producers(exchange: Exchange, topic: str, version: int) -> Answers:
    filled(exchange, topic)
    there = describe_producers.TopicRequest(name=topic, partition_indexes=(0, 3))
    return [exchange.ask(describe_producers.DescribeProducersRequest(topics=(there,)), version)]


def describing_the_cluster(exchange: Exchange, topic: str, version: int) -> Answers:
    request = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    fenced_too = request.replace(include_fenced_brokers=version >= 2)
    return [exchange.ask(message, version) for message in (request, fenced_too)]


def listing_config_resources(exchange: Exchange, topic: str, version: int) -> Answers:
    types = (BROKER_RESOURCE,) if version >= 1 else ()
    request = list_config_resources.ListConfigResourcesRequest(resource_types=types)
    return [exchange.ask(request, version)]


def describing_partitions(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic, partitions=3)
    named = tuple(
        describe_topic_partitions.TopicRequest(name=name) for name in sorted([topic, "no-such"])
    )
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=named, response_partition_limit=2
    )
    return [exchange.ask(request, version)]


def asking_for_a_producer_id(exchange: Exchange, topic: str, version: int) -> Answers:
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000
    )
    return [exchange.ask_until(request, version, lambda answer: answer.error_code == 0)]


def electing_leaders(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic, partitions=2)
    types = (0, 1, 7) if version else (0,)
    named = [(topic, (0, 1, 9)), ("no-such-topic", (0,)), (topic, ())]
    requests = [
        elect_leaders.ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=(elect_leaders.TopicPartitions(topic=name, partitions=indexes),),
        )
        for election_type in types
        for name, indexes in named
    ]
    return [exchange.ask(request, version) for request in requests]


def reassigning(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic)

    def move(name: str, index: int, replicas: tuple[int, ...] | None) -> Message:
        wanted = alter_partition_reassignments.ReassignablePartition(
            partition_index=index, replicas=replicas
        )
        named = alter_partition_reassignments.ReassignableTopic(name=name, partitions=(wanted,))
        return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=(named,))

    wishes = [(topic, 0, (1,)), (topic, 0, None), (topic, 0, (1, 2)), (topic, 0, (1, 1))]
    wishes += [(topic, 0, ()), (topic, 9, (1,)), ("no-such-topic", 0, (1,))]
    return [exchange.ask(move(*wish), version) for wish in wishes]


def listing_reassignments(exchange: Exchange, topic: str, version: int) -> Answers:
    created(exchange, topic)
    named = list_partition_reassignments.ListPartitionReassignmentsTopics(
        name=topic, partition_indexes=(0, 9)
    )
    requests = [
        list_partition_reassignments.ListPartitionReassignmentsRequest(topics=topics)
        for topics in (None, (named,), ())
    ]
    return [exchange.ask(request, version) for request in requests]


def describing_the_quorum(exchange: Exchange, topic: str, version: int) -> Answers:
    """But for offsets and times."""

    def asked(name: str, index: int) -> Any:
        partition = describe_quorum.PartitionData(partition_index=index)
        named = describe_quorum.TopicData(topic_name=name, partitions=(partition,))
        return exchange.ask(describe_quorum.DescribeQuorumRequest(topics=(named,)), version)

    answer = asked("__cluster_metadata", 0)
    (there,) = answer.topics
    (partition,) = there.partitions
    (voter,) = partition.current_voters
    assert 0 < partition.high_watermark <= voter.log_end_offset
    assert (voter.last_fetch_timestamp > 0) == (version > 0)
    voter = voter.replace(log_end_offset=0, last_fetch_timestamp=0, last_caught_up_timestamp=0)
    partition = partition.replace(high_watermark=0, current_voters=(voter,))
    same = answer.replace(topics=(there.replace(partitions=(partition,)),))
    return [same, asked("no-such-topic", 0), asked("__cluster_metadata", 1)]


def unregistering(exchange: Exchange, topic: str, version: int) -> Answers:
    return [exchange.ask(unregister_broker.UnregisterBrokerRequest(broker_id=9), version)]


def adding_a_voter(exchange: Exchange, topic: str, version: int) -> Answers:
    """The quorum of these nodes is static."""
    listener = add_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=1)
    request = add_raft_voter.AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=1000,
        voter_id=2,
        voter_directory_id=b"2" * 16,
        listeners=(listener,),
    )
    wrong = request.replace(cluster_id="another")
    return [exchange.ask(message, version) for message in (request, wrong)]


def removing_a_voter(exchange: Exchange, topic: str, version: int) -> Answers:
    request = remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=None, voter_id=2, voter_directory_id=b"2" * 16
    )
    wrong = request.replace(cluster_id="another")
    return [exchange.ask(message, version) for message in (request, wrong)]


CONVERSATIONS: dict[int, Conversation] = {
    ApiKey.PRODUCE: producing,
    ApiKey.FETCH: fetching,
    ApiKey.LIST_OFFSETS: listing_offsets,
    ApiKey.METADATA: asking_for_metadata,
    ApiKey.CREATE_TOPICS: creating_topics,
    ApiKey.DELETE_TOPICS: deleting_topics,
    ApiKey.DELETE_RECORDS: deleting_records,
    ApiKey.INIT_PRODUCER_ID: asking_for_a_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: asking_for_epochs,
    ApiKey.DESCRIBE_CONFIGS: describing_configs,
    ApiKey.ALTER_CONFIGS: altering_configs,
    ApiKey.DESCRIBE_LOG_DIRS: describing_log_dirs,
    ApiKey.CREATE_PARTITIONS: creating_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: altering_incrementally,
    ApiKey.DESCRIBE_CLUSTER: describing_the_cluster,
    ApiKey.DESCRIBE_PRODUCERS: describing_producers,
    ApiKey.LIST_CONFIG_RESOURCES: listing_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describing_partitions,
    ApiKey.ELECT_LEADERS: electing_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassigning,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: listing_reassignments,
    ApiKey.DESCRIBE_QUORUM: describing_the_quorum,
    ApiKey.UNREGISTER_BROKER: unregistering,
    ApiKey.ADD_RAFT_VOTER: adding_a_voter,
    ApiKey.REMOVE_RAFT_VOTER: removing_a_voter,
}
NOT_COMPARED = {
    ApiKey.API_VERSIONS: "what is advertised differs until all is served",
    ApiKey.FIND_COORDINATOR: "there are no coordinators yet",
    ApiKey.UPDATE_FEATURES: "changes the cluster",
}
VERSIONS = [
    pytest.param(key, version, id=f"{APIS[key].name}-{version}")
    for key in CONVERSATIONS
    for version in range(max(SERVED[key][0], 3 if key == ApiKey.PRODUCE else 0), SERVED[key][1] + 1)
]


def test_every_api_is_compared_or_excused() -> None:
    assert set(CONVERSATIONS) | set(NOT_COMPARED) >= set(SERVED)


def test_what_is_advertised_is_what_apache_advertises(ours: Exchange, apache: Exchange) -> None:
    """In the same versions; only whole APIs are missing."""
    request = api_versions.ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    )

    def advertised(exchange: Exchange) -> dict[int, tuple[int, int]]:
        answer: Any = exchange.ask(request, 4)
        return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}

    ours_, theirs = advertised(ours), advertised(apache)
    assert set(ours_) == set(SERVED)
    assert ours_ == {key: theirs[key] for key in ours_}


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_the_same_answers(ours: Exchange, apache: Exchange, key: int, version: int) -> None:
    topic = f"version-{key}-{version}"
    expected = CONVERSATIONS[key](apache, topic, version)
    answers = CONVERSATIONS[key](ours, topic, version)
    for number, (answer, apaches) in enumerate(zip(answers, expected, strict=True)):
        assert comparable(answer) == comparable(apaches), f"the answer to request {number}"
