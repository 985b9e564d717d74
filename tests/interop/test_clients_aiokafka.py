"""aiokafka, the asyncio client; it speaks older versions of most requests than the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError
from aiokafka.structs import TopicPartition

from tests.interop.suite import (
    MEGABYTE,
    SECONDS_MAX,
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
TOPIC_ALREADY_EXISTS = 36
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
T = TypeVar("T")


class AioKafka(Client):
    """Each call runs a loop of its own, so that the suite stays one for all."""

    cannot_send = frozenset({"nothing at all"})

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    def ask(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """One admin call."""

        async def run() -> T:
            async with self.admin() as admin:
                return await call(admin)

        return asyncio.run(run())

    def create_topic(self, topic: str, partitions: int) -> None:
        new = NewTopic(topic, partitions, 1)
        response = self.ask(lambda admin: admin.create_topics([new]))
        assert [error[1] for error in response.topic_errors] == [0]

    def produce(
        self, topic: str, partition: int, records: Sequence[Record], acks: Acks, codec: str
    ) -> list[int | None]:
        return asyncio.run(self.produced(topic, partition, records, acks, codec))

    async def produced(
        self, topic: str, partition: int, records: Sequence[Record], acks: Acks, codec: str
    ) -> list[int | None]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            acks={"0": 0, "1": 1}.get(acks, "all"),
            enable_idempotence=acks == "idempotent",
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            max_request_size=2 * MEGABYTE,
            max_batch_size=100_000,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            await producer.flush()
            sent = await asyncio.gather(*futures)
        finally:
            await producer.stop()
        return [None if acks == "0" else metadata.offset for metadata in sent]

    @asynccontextmanager
    async def consumer(self, topic: str, partition: int) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, group_id=None, auto_offset_reset="none"
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, partition)])
            yield consumer
        finally:
            await consumer.stop()

    def consume(self, topic: str, partition: int, start: Start, count: int) -> list[Received]:
        return asyncio.run(self.consumed(topic, partition, start, count))

    async def consumed(
        self, topic: str, partition: int, start: Start, count: int
    ) -> list[Received]:
        place = TopicPartition(topic, partition)
        async with self.consumer(topic, partition) as consumer:
            match start:
                case Begin():
                    await consumer.seek_to_beginning(place)
                case Offset(offset):
                    consumer.seek(place, offset)
                case Timestamp(timestamp_ms):
                    found = await consumer.offsets_for_times({place: timestamp_ms})
                    consumer.seek(place, found[place].offset)
                case End(then):
                    await consumer.seek_to_end(place)
                    await consumer.position(place)
                    await asyncio.get_running_loop().run_in_executor(None, then)
            received: list[Received] = []
            while len(received) < count:
                polled = await consumer.getmany(
                    place, timeout_ms=SECONDS_MAX * 1000, max_records=count - len(received)
                )
                assert polled, f"{len(received)} of {count} records, then no more"
                received += [
                    Received(r.offset, Record(r.value, r.key, tuple(r.headers), r.timestamp))
                    for r in polled[place]
                ]
            return received

    def end_offset(self, topic: str, partition: int) -> int:
        async def ask() -> int:
            place = TopicPartition(topic, partition)
            async with self.consumer(topic, partition) as consumer:
                return int((await consumer.end_offsets([place]))[place])

        return asyncio.run(ask())


class TestAioKafka(ClientSuite):
    library = AioKafka


@pytest.fixture
def client(bootstrap_servers: str) -> AioKafka:
    return AioKafka(bootstrap_servers)


def partitions_of(client: AioKafka, topic: str) -> int:
    (found,) = client.ask(lambda admin: admin.describe_topics([topic]))
    return len(found["partitions"])


def config_of(client: AioKafka, kind: ConfigResourceType, name: str) -> dict[str, str]:
    resource = ConfigResource(kind, name)
    (response,) = client.ask(lambda admin: admin.describe_configs([resource]))
    ((error_code, _, _, _, entries),) = response.resources
    assert error_code == 0
    return {entry[0]: entry[1] for entry in entries}


def test_topics_live_and_die(client: AioKafka) -> None:
    name = new_topic()
    client.create_topic(name, 2)
    eventually(lambda: partitions_of(client, name) == 2)
    client.ask(lambda admin: admin.create_partitions({name: NewPartitions(3)}))
    eventually(lambda: partitions_of(client, name) == 3)
    client.ask(lambda admin: admin.delete_topics([name]))
    eventually(lambda: name not in client.ask(lambda admin: admin.list_topics()))
    cluster = client.ask(lambda admin: admin.describe_cluster())
    assert [broker["node_id"] for broker in cluster["brokers"]] == [1]


def test_a_wrong_topic_is_refused_by_code(client: AioKafka) -> None:
    name = new_topic()
    client.create_topic(name, 1)
    wrong = {
        TOPIC_ALREADY_EXISTS: NewTopic(name, 1, 1),
        INVALID_REPLICATION_FACTOR: NewTopic(new_topic(), 1, 5),
        INVALID_CONFIG: NewTopic(new_topic(), 1, 1, topic_configs={"segment.ms": "x"}),
    }
    for code, topic in wrong.items():
        response = client.ask(lambda admin, topic=topic: admin.create_topics([topic]))
        assert [error[1] for error in response.topic_errors] == [code]


def test_configs_are_described_and_altered(client: AioKafka) -> None:
    name = new_topic()
    client.create_topic(name, 1)
    change = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "4321"})
    (response,) = client.ask(lambda admin: admin.alter_configs([change]))
    assert [resource[0] for resource in response.resources] == [0]
    topic = ConfigResourceType.TOPIC
    eventually(lambda: config_of(client, topic, name)["retention.ms"] == "4321")
    assert config_of(client, ConfigResourceType.BROKER, "1")["node.id"] == "1"


def test_records_are_deleted(client: AioKafka) -> None:
    name = new_topic()
    place = TopicPartition(name, 0)
    client.create_topic(name, 1)
    client.produce(name, 0, small_records(10), "all", "none")
    deleted = client.ask(lambda admin: admin.delete_records({place: RecordsToDelete(4)}))
    assert deleted[place] == 4
    assert client.consume(name, 0, Begin(), 1)[0].offset == 4
    with pytest.raises(OffsetOutOfRangeError):
        client.consume(name, 0, Offset(1), 1)


def test_a_record_that_is_too_large_is_refused(client: AioKafka) -> None:
    name = new_topic()
    client.create_topic(name, 1)
    with pytest.raises(MessageSizeTooLargeError):
        client.produce(name, 0, [Record(bytes(MEGABYTE + 100_000))], "1", "none")
