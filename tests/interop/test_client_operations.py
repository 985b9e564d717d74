"""Our client against Apache Kafka, which never heard of it, and against our own node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer as ConfluentProducer

from tests.interop.apache import ApacheNode
from tests.interop.process import NodeProcess
from tests.interop.suite import HUNDRED_THOUSAND, SECONDS_MAX, eventually, new_topic
from tests.interop.tidelog_node import TidelogNode
from tidelog.client import (
    AsyncClient,
    BrokerError,
    Client,
    ClientSettings,
    TopicPartition,
    parse_servers,
)
from tidelog.client.admin import describe_cluster, describe_log_dirs
from tidelog.client.cluster import Cluster
from tidelog.client.configs import (
    Change,
    ConfigOperation,
    ConfigSource,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from tidelog.client.fetch import FetchLimits, PartitionReader, fetch
from tidelog.client.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NOT_FOUND,
    IsolationLevel,
    delete_records,
    list_offsets,
)
from tidelog.client.produce import ACKS_ALL, ACKS_LEADER, ACKS_NONE, produce
from tidelog.client.producer import Producer
from tidelog.client.routing import Attempts, learn_topics
from tidelog.client.steps import Steps
from tidelog.client.topics import (
    MorePartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topics,
    list_topics,
)
from tidelog.client.visibility import visible_batches
from tidelog.errors import ErrorCode
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import Record, read_records
from tidelog.wire.compression import Compression

pytestmark = pytest.mark.interop

BATCH_RECORDS = 200
LONG_AGO_MS = 1_000_000


@pytest.fixture(scope="module", params=["apache", "tidelog"])
def node(request: pytest.FixtureRequest) -> Iterator[NodeProcess]:
    is_apache = request.param == "apache"
    with ApacheNode() if is_apache else TidelogNode() as found:
        yield found


@pytest.fixture
def settings(node: NodeProcess) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_servers(node.bootstrap_servers))


@pytest.fixture
def client(settings: ClientSettings) -> Iterator[Client]:
    with Client(settings) as found:
        yield found


@pytest.fixture
def partitions(client: Client) -> list[TopicPartition]:
    """The three of a topic of this test's own."""
    topic = new_topic()
    assert client.run(create_topics, [NewTopic(topic, 3, 1)]) == {topic: None}
    client.run(wait_for, topic)
    return [TopicPartition(topic, index) for index in range(3)]


def wait_for(cluster: Cluster, topic: str) -> Steps[None]:
    """A topic is created before every broker knows it."""
    return learn_topics(cluster, [topic], Attempts(cluster))


def batch(
    numbers: range, compression: Compression = Compression.NONE, since_ms: int = LONG_AGO_MS
) -> bytearray:
    builder = BatchBuilder()
    for number in numbers:
        headers = ((b"number", b"%d" % number), (b"null", None)) if number % 3 == 0 else ()
        key = None if number % 5 == 0 else b"k%d" % number
        value = None if number % 7 == 0 else b"v%d" % number
        builder.append(key, value, timestamp=since_ms + number, headers=headers)
    return builder.build(compression=compression)


def read_all(client: Client, partition: TopicPartition, end: int) -> list[Record]:
    reader = PartitionReader(partition, 0, end)
    records: list[Record] = []
    while (fetched := client.run(reader.read)) is not None:
        for found in visible_batches(fetched):
            records += read_records(found)
    client.run(reader.close)
    return records


def check(records: list[Record], numbers: range, since_ms: int = LONG_AGO_MS) -> None:
    """One by one: nothing lost, nothing twice, nothing changed."""
    assert len(records) == len(numbers)
    for offset, (record, number) in enumerate(zip(records, numbers, strict=True)):
        assert record.offset == offset
        assert record.timestamp == since_ms + number
        assert record.key == (None if number % 5 == 0 else b"k%d" % number)
        assert record.value == (None if number % 7 == 0 else b"v%d" % number)
        expected = ((b"number", b"%d" % number), (b"null", None)) if number % 3 == 0 else ()
        assert record.headers == expected


@pytest.mark.parametrize("compression", list(Compression))
def test_every_codec_with_every_acks(client, partitions, compression):
    first = partitions[0]
    for place, acks in enumerate((ACKS_ALL, ACKS_LEADER, ACKS_NONE)):
        numbers = range(place * 10, place * 10 + 10)
        produced = client.run(produce, {first: batch(numbers, compression)}, acks=acks)
        if acks != ACKS_NONE:
            assert produced[first].base_offset == place * 10
    check(read_all(client, first, 30), range(30))


def test_a_hundred_thousand_records_by_an_idempotent_producer(client, partitions):
    producer = Producer()
    for start in range(0, HUNDRED_THOUSAND, BATCH_RECORDS):
        numbers = range(start, start + BATCH_RECORDS)
        client.run(producer.send, partitions[0], batch(numbers, Compression.LZ4))
    client.run(producer.flush)
    check(read_all(client, partitions[0], HUNDRED_THOUSAND), range(HUNDRED_THOUSAND))


def test_offsets_by_time(client, partitions):
    client.run(produce, {partition: batch(range(100)) for partition in partitions[:2]})
    for timestamp, offset in (
        (EARLIEST, 0),
        (LATEST, 100),
        (MAX_TIMESTAMP, 99),
        (1_000_050, 50),
        (0, 0),
        (1 << 50, NOT_FOUND),
    ):
        found = client.run(list_offsets, dict.fromkeys(partitions[:2], timestamp))
        assert [listed.offset for listed in found.values()] == [offset, offset], timestamp
    assert client.run(list_offsets, {partitions[2]: LATEST})[partitions[2]].offset == 0


def test_fetches_respect_their_limits(client, partitions):
    first = partitions[0]
    for start in range(0, 100, 10):
        client.run(produce, {first: batch(range(start, start + 10))})
    limits = FetchLimits(max_bytes=1, partition_max_bytes=1)
    fetched = client.run(fetch, {first: 15}, limits=limits)[first]
    assert [found.base_offset for found in fetched.batches()] == [10]
    assert (fetched.high_watermark, fetched.log_start_offset) == (100, 0)
    limits = FetchLimits(max_wait_ms=100, min_bytes=1 << 20)
    fetched = client.run(fetch, {first: 0}, limits=limits)[first]
    assert fetched.next_offset() == 100
    assert client.run(fetch, {first: 100}, limits=limits)[first].next_offset() == 100
    with pytest.raises(BrokerError) as caught:
        client.run(fetch, {first: 101})
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_records_are_gone(client, partitions):
    first = partitions[0]
    client.run(produce, {first: batch(range(100))})
    assert client.run(delete_records, {first: 40}) == {first: 40}
    assert client.run(list_offsets, {first: EARLIEST})[first].offset == 40
    assert client.run(delete_records, {first: -1}) == {first: 100}
    with pytest.raises(BrokerError) as caught:
        client.run(delete_records, {first: 101})
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_batch_that_is_too_large_is_refused(client, partitions):
    builder = BatchBuilder()
    builder.append(None, bytes(2_000_000), timestamp=0)
    with pytest.raises(BrokerError) as caught:
        client.run(produce, {partitions[0]: builder.build()})
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_topics_live_and_die(client):
    topic = new_topic()
    new = NewTopic(topic, 2, 1, configs={"retention.ms": "12345"})
    assert client.run(create_topics, [new], validate_only=True) == {topic: None}
    assert client.run(create_topics, [new]) == {topic: None}
    again = client.run(create_topics, [new])[topic]
    assert again.code is ErrorCode.TOPIC_ALREADY_EXISTS
    client.run(wait_for, topic)
    described = client.run(describe_topics, [topic, "no-such-topic"])
    assert list(described) == [topic]
    assert [p.leader_id for p in described[topic].partitions] == [1, 1]
    assert described[topic].partitions[0].eligible_leader_replicas == ()
    assert client.run(create_partitions, [MorePartitions(topic, 4)]) == {topic: None}
    fewer = client.run(create_partitions, [MorePartitions(topic, 3)])[topic]
    assert fewer.code is ErrorCode.INVALID_PARTITIONS
    assert client.run(delete_topics, [topic]) == {topic: None}
    missing = client.run(delete_topics, ["no-such-topic"])["no-such-topic"]
    assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "no-such-topic" not in client.run(list_topics)


def test_configs_change_and_change_back(client, partitions):
    resource = Resource(ResourceType.TOPIC, partitions[0].topic)
    change = Change("retention.ms", ConfigOperation.SET, "54321")
    assert client.run(alter_configs, {resource: [change]}) == {resource: None}
    eventually(lambda: own(client, resource) == {"retention.ms": "54321"})
    assert resource in client.run(list_config_resources, [ResourceType.TOPIC])
    bad = client.run(alter_configs, {resource: [change._replace(value="soon")]})[resource]
    assert bad.code is ErrorCode.INVALID_CONFIG
    assert own(client, resource) == {"retention.ms": "54321"}
    back = Change("retention.ms", ConfigOperation.DELETE)
    twice = Change("cleanup.policy", ConfigOperation.SET, "compact,delete,compact")
    assert client.run(alter_configs, {resource: [back, twice]}) == {resource: None}
    eventually(lambda: own(client, resource) == {"cleanup.policy": "compact,delete"})
    back = Change("cleanup.policy", ConfigOperation.DELETE)
    assert client.run(alter_configs, {resource: [back]}) == {resource: None}
    eventually(lambda: own(client, resource) == {})
    broker = Resource(ResourceType.BROKER, "1")
    names = {entry.name for entry in client.run(describe_configs, [broker])[broker]}
    assert {"num.partitions", "log.retention.ms"} <= names


def test_a_broker_cordons_only_directories_that_it_has(client, node):
    broker = Resource(ResourceType.BROKER, "1")

    def cordon(value: str) -> BrokerError | None:
        change = Change("cordoned.log.dirs", ConfigOperation.SET, value)
        return client.run(alter_configs, {broker: [change]})[broker]

    for value, said in (
        ("/nowhere", "Missing entries : /nowhere"),
        (f"{node.log_dir},*", "it must not contain other values"),
    ):
        refused = cordon(value)
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REQUEST
        assert said in str(refused)
    for value in (str(node.log_dir), "*", ""):
        assert cordon(value) is None
    # The controller hears of it by a heartbeat, and until then places nothing there.
    topic = new_topic()
    tried = [NewTopic(topic, 1, 1)]
    eventually(lambda: client.run(create_topics, tried, validate_only=True) == {topic: None})


def own(client: Client, resource: Resource) -> dict[str, str | None]:
    entries = client.run(describe_configs, [resource])[resource]
    assert not isinstance(entries, BrokerError)
    return {e.name: e.value for e in entries if e.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}


def test_the_cluster_and_its_disks(client, node, partitions):
    described = client.run(describe_cluster)
    (broker,) = described.brokers
    assert str(broker.address) == node.bootstrap_servers
    assert not broker.is_fenced
    client.run(produce, {partitions[0]: batch(range(100))})

    def is_filled() -> dict[int, bool]:
        ((directory,),) = client.run(describe_log_dirs).values()
        assert directory.log_dir == str(node.log_dir)
        sizes = {t.name: t.partitions for t in directory.topics}[partitions[0].topic]
        return {p.partition_index: p.partition_size > 0 for p in sizes}

    # Apache makes the directories one by one, after it has told of the topic.
    eventually(lambda: is_filled() == {0: True, 1: False, 2: False})


def test_the_asyncio_shell_runs_the_same_operations(settings, partitions):
    async def scenario() -> None:
        async with AsyncClient(settings) as client:
            batches = [{partition: batch(range(50))} for partition in partitions]
            await asyncio.gather(*(client.run(produce, part) for part in batches))
            found = await client.run(list_offsets, dict.fromkeys(partitions, LATEST))
            assert [listed.offset for listed in found.values()] == [50, 50, 50]
            reader = PartitionReader(partitions[1], 0, 50)
            fetched = await client.run(reader.read)
            (only,) = fetched.batches()
            check(read_records(only), range(50))
            assert await client.run(reader.read) is None

    asyncio.run(scenario())


def test_nothing_is_lost_or_doubled_when_the_broker_is_killed(client, node, partitions):
    """The log survives a process in the page cache; answers do not, and batches are sent again."""
    producer = Producer(delivery_timeout_ms=5 * SECONDS_MAX * 1000)
    first = partitions[0]
    # A restarted Apache broker has forgotten the producers of records older than a day.
    since_ms = time.time_ns() // 1_000_000
    for start in range(0, 1000, 20):
        client.run(producer.send, first, batch(range(start, start + 20), since_ms=since_ms))
        if start == 500:
            node.kill()
            node.start()
    client.run(producer.flush)
    check(read_all(client, first, 1000), range(1000), since_ms)


def test_what_a_killed_broker_wrote_and_did_not_answer_is_not_doubled(client, node, partitions):
    """Of what a producer sent a restarted Apache broker knows only the last batch, and takes an
    earlier one for out of order."""
    producer = Producer(delivery_timeout_ms=5 * SECONDS_MAX * 1000)
    first = partitions[0]
    since_ms = time.time_ns() // 1_000_000
    for start in range(0, 100, 20):
        client.run(producer.send, first, batch(range(start, start + 20), since_ms=since_ms))
        if not start:
            client.run(producer.flush)
    with Client(client.settings) as other:
        eventually(lambda: other.run(list_offsets, {first: LATEST})[first].offset == 100)
    client.close()  # the answers are lost
    node.kill()
    node.start()
    client.run(producer.flush)
    client.run(producer.send, first, batch(range(100, 120), since_ms=since_ms))
    client.run(producer.flush)
    check(read_all(client, first, 120), range(120), since_ms)


# Only there: Tidelog's brokers have no transactions yet.
@pytest.mark.parametrize("node", ["apache"], indirect=True, scope="module")
def test_aborted_transactions_are_left_out(client, node, partitions):
    topic = partitions[0].topic
    producer = ConfluentProducer(
        {"bootstrap.servers": node.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions(SECONDS_MAX)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(SECONDS_MAX)
        if number % 2:
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
    committed = IsolationLevel.READ_COMMITTED

    def last_stable_offset() -> int:
        listed = client.run(list_offsets, {partitions[0]: LATEST}, isolation=committed)
        return listed[partitions[0]].offset

    # Apache answers the end of a transaction before it writes the marker into the log.
    eventually(lambda: last_stable_offset() == 6 * len(["record", "marker"]))
    fetched = client.run(fetch, {partitions[0]: 0}, isolation=committed)[partitions[0]]
    assert len(fetched.aborted_transactions) == 3
    seen = [record.value for found in visible_batches(fetched) for record in read_records(found)]
    assert seen == [b"0", b"2", b"4"]
