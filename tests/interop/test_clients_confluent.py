"""confluent-kafka, which is librdkafka: the client of most languages but Java and Go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
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


def record_of(message: Message) -> Record:
    error = message.error()
    assert error is None, error
    kind, timestamp_ms = message.timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    return Record(message.value(), message.key(), tuple(message.headers() or ()), timestamp_ms)


class Confluent(Client):
    def config(self, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap_servers} | settings

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.config())

    def create_topic(self, topic: str, partitions: int) -> None:
        create(self.admin, NewTopic(topic, partitions, 1))

    def produce(
        self, topic: str, partition: int, records: Sequence[Record], acks: Acks, codec: str
    ) -> list[int | None]:
        idempotent = acks == "idempotent"
        settings = {
            "acks": "all" if idempotent else acks,
            "enable.idempotence": idempotent,
            "compression.type": codec,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            # The client measures a record uncompressed and with its overhead.
            "message.max.bytes": 2 * MEGABYTE,
            "batch.size": 500_000,
        }
        producer = Producer(self.config(**settings))
        offsets: list[int | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            offsets.append(None if acks == "0" else offset)

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=delivered,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        assert producer.flush(SECONDS_MAX) == 0
        return offsets

    def consumer(self, **settings: Any) -> Consumer:
        # A group id is demanded even by a client that only assigns; it is never used.
        return Consumer(self.config(**{"group.id": "g", "enable.auto.commit": False} | settings))

    def consume(self, topic: str, partition: int, start: Start, count: int) -> list[Received]:
        settings = {
            "check.crcs": True,
            "auto.offset.reset": "error",
            "enable.partition.eof": isinstance(start, End),
        }
        consumer = self.consumer(**settings)
        try:
            match start:
                case Begin():
                    offset = OFFSET_BEGINNING
                case Offset(offset):
                    pass
                case Timestamp(timestamp_ms):
                    asked = [TopicPartition(topic, partition, timestamp_ms)]
                    offset = consumer.offsets_for_times(asked, SECONDS_MAX)[0].offset
                case End():
                    offset = OFFSET_END
            consumer.assign([TopicPartition(topic, partition, offset)])
            if isinstance(start, End):
                eof = consumer.poll(SECONDS_MAX).error()
                assert eof is not None
                assert eof.code() == KafkaError._PARTITION_EOF
                start.then()
            received: list[Received] = []
            while len(received) < count:
                messages = consumer.consume(min(count - len(received), 10_000), SECONDS_MAX)
                assert messages, f"{len(received)} of {count} records, then no more"
                received += [Received(m.offset(), record_of(m)) for m in messages]
            return received
        finally:
            consumer.close()

    def end_offset(self, topic: str, partition: int) -> int:
        consumer = self.consumer()
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), SECONDS_MAX)
            return int(end)
        finally:
            consumer.close()


def done(futures: dict[Any, Any]) -> Any:
    """The one result of an admin call that was asked about one thing."""
    (future,) = futures.values()
    return future.result(SECONDS_MAX)


def create(admin: AdminClient, topic: NewTopic) -> None:
    """The broker knows the topic when this returns."""
    done(admin.create_topics([topic]))
    eventually(lambda: topic.topic in admin.list_topics(timeout=SECONDS_MAX).topics)


def refusal(futures: dict[Any, Any]) -> KafkaError:
    with pytest.raises(KafkaException) as refused:
        done(futures)
    error = refused.value.args[0]
    assert isinstance(error, KafkaError)
    return error


class TestConfluent(ClientSuite):
    library = Confluent


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return Confluent(bootstrap_servers).admin


def config_of(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = done(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def value_of(admin: AdminClient, topic: str, key: str) -> str | None:
    return config_of(admin, ResourceType.TOPIC, topic)[key].value


def test_topics_live_and_die(admin: AdminClient) -> None:
    name = new_topic()
    topic = NewTopic(name, 3, 1, config={"retention.ms": "3600000"})
    done(admin.create_topics([topic], validate_only=True))
    assert name not in admin.list_topics(timeout=SECONDS_MAX).topics
    create(admin, topic)
    described = done(admin.describe_topics(TopicCollection([name])))
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert not described.is_internal
    assert str(described.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"
    for partition in described.partitions:
        assert partition.leader.id == 1
        assert [node.id for node in partition.replicas] == [1]
        assert [node.id for node in partition.isr] == [1]
    done(admin.create_partitions([NewPartitions(name, 5)]))
    eventually(
        lambda: len(admin.list_topics(name, timeout=SECONDS_MAX).topics[name].partitions) == 5
    )
    assert config_of(admin, ResourceType.TOPIC, name)["retention.ms"].value == "3600000"
    done(admin.delete_topics([name]))
    eventually(lambda: name not in admin.list_topics(timeout=SECONDS_MAX).topics)


def test_a_wrong_topic_is_refused_by_code(admin: AdminClient) -> None:
    name = new_topic()
    create(admin, NewTopic(name, 2, 1))
    refusals = {
        KafkaError.TOPIC_ALREADY_EXISTS: admin.create_topics([NewTopic(name, 1, 1)]),
        KafkaError.INVALID_REPLICATION_FACTOR: admin.create_topics([NewTopic(new_topic(), 1, 9)]),
        KafkaError.TOPIC_EXCEPTION: admin.create_topics([NewTopic("no/slash", 1, 1)]),
        KafkaError.INVALID_CONFIG: admin.create_topics(
            [NewTopic(new_topic(), 1, 1, config={"retention.ms": "soon"})]
        ),
        KafkaError.INVALID_PARTITIONS: admin.create_partitions([NewPartitions(name, 1)]),
        KafkaError.UNKNOWN_TOPIC_OR_PART: admin.delete_topics([new_topic()]),
    }
    for code, futures in refusals.items():
        error = refusal(futures)
        assert error.code() == code, error
        assert error.str()


def test_configs_are_described_and_altered(admin: AdminClient) -> None:
    name = new_topic()
    create(admin, NewTopic(name, 1, 1))
    before = config_of(admin, ResourceType.TOPIC, name)
    assert before["cleanup.policy"].value == "delete"
    assert before["cleanup.policy"].is_default
    changes = [
        ConfigEntry("max.message.bytes", "12345", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    topic = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    done(admin.incremental_alter_configs([topic]))
    eventually(lambda: value_of(admin, name, "max.message.bytes") == "12345")
    after = config_of(admin, ResourceType.TOPIC, name)
    assert after["max.message.bytes"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert sorted(str(after["cleanup.policy"].value).split(",")) == ["compact", "delete"]
    undo = [
        ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)
        for key in ("max.message.bytes", "cleanup.policy")
    ]
    done(
        admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, name, incremental_configs=undo)]
        )
    )
    eventually(lambda: value_of(admin, name, "max.message.bytes") == "1048588")


def test_a_wrong_config_is_refused(admin: AdminClient) -> None:
    name = new_topic()
    create(admin, NewTopic(name, 1, 1))
    for key, value in (("segment.bytes", "-5"), ("no.such.key", "1"), ("cleanup.policy", "burn")):
        change = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
        error = refusal(admin.incremental_alter_configs([topic]))
        assert error.code() == KafkaError.INVALID_CONFIG, (key, error)
        assert key in error.str()


def test_the_broker_describes_itself(admin: AdminClient) -> None:
    cluster = admin.describe_cluster(request_timeout=SECONDS_MAX).result(SECONDS_MAX)
    assert cluster.cluster_id
    assert [node.id for node in cluster.nodes] == [1]
    broker = config_of(admin, ResourceType.BROKER, "1")
    assert broker["node.id"].value == "1"
    assert broker["node.id"].is_read_only
    assert broker["log.roll.hours"].value == "168"


def test_offsets_are_listed_and_records_deleted(bootstrap_servers: str, admin: AdminClient) -> None:
    client, name = Confluent(bootstrap_servers), new_topic()
    client.create_topic(name, 1)
    records = small_records(20, step_ms=100)
    client.produce(name, 0, [*records[:10], *reversed(records[10:])], "1", "none")
    partition = TopicPartition(name, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(done(admin.list_offsets({partition: spec})).offset)

    assert listed(OffsetSpec.earliest()) == 0
    assert listed(OffsetSpec.latest()) == 20
    assert listed(OffsetSpec.max_timestamp()) == 10
    assert listed(OffsetSpec.for_timestamp(TIMESTAMP_MS + 450)) == 5
    assert listed(OffsetSpec.for_timestamp(TIMESTAMP_MS + 10_000)) == -1
    assert done(admin.delete_records([TopicPartition(name, 0, 7)])).low_watermark == 7
    assert listed(OffsetSpec.earliest()) == 7
    assert client.consume(name, 0, Begin(), 1)[0].offset == 7
    error = refusal(admin.delete_records([TopicPartition(name, 0, 21)]))
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert done(admin.delete_records([TopicPartition(name, 0, OFFSET_END)])).low_watermark == 20


def test_reading_outside_the_log_is_an_error(bootstrap_servers: str) -> None:
    client, name = Confluent(bootstrap_servers), new_topic()
    client.create_topic(name, 1)
    client.produce(name, 0, small_records(3), "1", "none")
    with pytest.raises(AssertionError, match="out of range"):
        client.consume(name, 0, Offset(1000), 1)


def test_a_record_that_is_too_large_is_refused(bootstrap_servers: str) -> None:
    client, name = Confluent(bootstrap_servers), new_topic()
    client.create_topic(name, 1)
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        client.produce(name, 0, [Record(bytes(MEGABYTE + 100_000))], "1", "none")
    assert client.end_offset(name, 0) == 0


def test_a_topic_is_created_by_producing_to_it(bootstrap_servers: str) -> None:
    client, name = Confluent(bootstrap_servers), new_topic()
    records = small_records(5)
    assert client.produce(name, 0, records, "all", "none") == list(range(5))
    assert [r.record for r in client.consume(name, 0, Begin(), 5)] == records
