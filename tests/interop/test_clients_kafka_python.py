"""kafka-python, the client that is Python all the way down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from kafka.errors import (
    InvalidConfigurationError,
    InvalidReplicationFactorError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.interop.suite import (
    MEGABYTE,
    SECONDS_MAX,
    TIMESTAMP_MS,
    Acks,
    Begin,
    Client,
    ClientSuite,
    End,
    Offset,
    Received,
    Record,
    Start,
    Timestamp,
    eventually,
    new_topic,
    small_records,
)

pytestmark = pytest.mark.interop


class KafkaPython(Client):
    cannot_send = frozenset({"nothing at all"})

    @cached_property
    def admin(self) -> Any:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)

    def close(self) -> None:
        if "admin" in vars(self):
            self.admin.close()

    def create_topic(self, topic: str, partitions: int) -> None:
        options = {"num_partitions": partitions, "replication_factor": 1}
        self.admin.create_topics({topic: options}, wait_for_metadata=True)

    def produce(
        self, topic: str, partition: int, records: Sequence[Record], acks: Acks, codec: str
    ) -> list[int | None]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            acks={"0": 0, "1": 1}.get(acks, "all"),
            enable_idempotence=acks == "idempotent",
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            max_request_size=2 * MEGABYTE,
            batch_size=100_000,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(SECONDS_MAX)
            offsets = [future.get(SECONDS_MAX).offset for future in futures]
        finally:
            producer.close()
        return [None if acks == "0" else offset for offset in offsets]

    def consumer(self) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, group_id=None, auto_offset_reset="none"
        )

    def consume(self, topic: str, partition: int, start: Start, count: int) -> list[Received]:
        consumer, place = self.consumer(), TopicPartition(topic, partition)
        try:
            consumer.assign([place])
            match start:
                case Begin():
                    consumer.seek_to_beginning(place)
                case Offset(offset):
                    consumer.seek(place, offset)
                case Timestamp(timestamp_ms):
                    found = consumer.offsets_for_times({place: timestamp_ms})[place]
                    consumer.seek(place, found.offset)
                case End(then):
                    consumer.seek_to_end(place)
                    consumer.position(place)
                    then()
            return self.received(consumer, place, count)
        finally:
            consumer.close()

    def received(self, consumer: Any, place: TopicPartition, count: int) -> list[Received]:
        received: list[Received] = []
        while len(received) < count:
            polled = consumer.poll(timeout_ms=SECONDS_MAX * 1000, max_records=count - len(received))
            assert polled, f"{len(received)} of {count} records, then no more"
            received += [
                Received(r.offset, Record(r.value, r.key, tuple(r.headers), r.timestamp))
                for r in polled[place]
            ]
        return received

    def end_offset(self, topic: str, partition: int) -> int:
        consumer, place = self.consumer(), TopicPartition(topic, partition)
        try:
            return int(consumer.end_offsets([place])[place])
        finally:
            consumer.close()


class TestKafkaPython(ClientSuite):
    library = KafkaPython


@pytest.fixture
def client(bootstrap_servers: str) -> Iterator[KafkaPython]:
    client = KafkaPython(bootstrap_servers)
    yield client
    client.close()


def described(client: KafkaPython, topic: str) -> dict[str, Any]:
    (found,) = client.admin.describe_topics([topic])
    assert isinstance(found, dict)
    return found


def config_of(client: KafkaPython, kind: str, name: str) -> dict[str, Any]:
    resources = client.admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
    found = resources[kind.lower()][name]
    assert isinstance(found, dict)
    return found


def test_topics_live_and_die(client: KafkaPython) -> None:
    name = new_topic()
    options = {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "60000"}}
    client.admin.create_topics({name: options}, validate_only=True)
    assert name not in client.admin.list_topics()
    client.admin.create_topics({name: options}, wait_for_metadata=True)
    assert len(described(client, name)["partitions"]) == 2
    client.admin.create_partitions({name: 4})
    eventually(lambda: len(described(client, name)["partitions"]) == 4)
    page = client.admin.describe_topic_partitions([name], response_partition_limit=3)
    (topic,) = page["topics"]
    assert [p["partition_index"] for p in topic["partitions"]] == [0, 1, 2]
    assert page["next_cursor"] == {"topic_name": name, "partition_index": 3}
    client.admin.delete_topics([name])
    eventually(lambda: name not in client.admin.list_topics())


def test_a_wrong_request_is_refused_by_code(client: KafkaPython) -> None:
    name = new_topic()
    client.create_topic(name, 1)
    with pytest.raises(TopicAlreadyExistsError):
        client.admin.create_topics([name])
    with pytest.raises(InvalidReplicationFactorError):
        client.admin.create_topics({new_topic(): {"replication_factor": 3}})
    with pytest.raises(UnknownTopicOrPartitionError):
        client.admin.delete_topics([new_topic()])
    wrong = ConfigResource("TOPIC", name, {"segment.bytes": "1"})
    answer = client.admin.alter_configs([wrong])["topic"][name]
    assert InvalidConfigurationError.__name__ in answer
    assert "segment.bytes" in answer


@pytest.mark.parametrize("incremental", [True, False])
def test_configs_are_described_and_altered(client: KafkaPython, incremental: bool) -> None:
    """By IncrementalAlterConfigs, and by AlterConfigs, which replaces all of a topic's configs."""
    name = new_topic()
    client.create_topic(name, 1)
    before = config_of(client, "TOPIC", name)["retention.ms"]["value"]
    client.admin.alter_configs(
        [ConfigResource("TOPIC", name, {"retention.ms": "1234"})], incremental=incremental
    )
    eventually(lambda: config_of(client, "TOPIC", name)["retention.ms"]["value"] == "1234")
    client.admin.reset_configs(
        [ConfigResource("TOPIC", name, {"retention.ms": None})], incremental=incremental
    )
    eventually(lambda: config_of(client, "TOPIC", name)["retention.ms"]["value"] == before)
    assert config_of(client, "BROKER", "1")["node.id"]["value"] == "1"
    assert name in client.admin.list_config_resources(["TOPIC"])["topic"]


def test_offsets_are_listed_and_records_deleted(client: KafkaPython) -> None:
    name = new_topic()
    place = TopicPartition(name, 0)
    client.create_topic(name, 1)
    client.produce(name, 0, small_records(20, step_ms=100), "1", "gzip")

    def listed(spec: Any) -> Any:
        return client.admin.list_partition_offsets({place: spec})[place]

    assert listed(OffsetSpec.EARLIEST).offset == 0
    assert listed(OffsetSpec.LATEST).offset == 20
    largest = listed(OffsetSpec.MAX_TIMESTAMP)
    assert (largest.offset, largest.timestamp) == (19, TIMESTAMP_MS + 1900)
    found = listed(TIMESTAMP_MS + 450)
    assert (found.offset, found.timestamp) == (5, TIMESTAMP_MS + 500)
    client.admin.delete_records({place: 8})
    assert listed(OffsetSpec.EARLIEST).offset == 8
    with pytest.raises(OffsetOutOfRangeError):
        client.consume(name, 0, Offset(3), 1)


def test_the_cluster_and_its_log_directories(client: KafkaPython) -> None:
    name = new_topic()
    client.create_topic(name, 1)
    client.produce(name, 0, [Record(bytes(10_000))], "all", "none")
    cluster = client.admin.describe_cluster()
    assert cluster["controller_id"] == 1
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [1]
    text = str(client.admin.describe_log_dirs())
    assert name in text


def test_a_record_that_is_too_large_is_refused(client: KafkaPython) -> None:
    name = new_topic()
    client.create_topic(name, 1)
    with pytest.raises(MessageSizeTooLargeError):
        client.produce(name, 0, [Record(bytes(MEGABYTE + 100_000))], "1", "none")
