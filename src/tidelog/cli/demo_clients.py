"""The clients of `tidelog demo`: librdkafka, as everybody installs it, or else our own.

Both create the topic, then produce and consume it; each yields how many records are done so far.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tidelog.client.cluster import TopicPartition
from tidelog.client.fetch import fetch
from tidelog.client.partitioner import partition_of_key
from tidelog.client.producer import Producer
from tidelog.client.topics import NewTopic, create_topics
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from tidelog.client import Client

PARTITIONS = 3
SEGMENT_BYTES = 1 << 20
"""Small, so that the log rolls while one looks; Kafka's own default is 1 GiB."""
TOPIC_CONFIGS = {"segment.bytes": str(SEGMENT_BYTES)}
CHUNK_MAX = 1000
"""Records between two looks at the screen."""
UNACKNOWLEDGED_MAX = 20 * CHUNK_MAX
"""The node sets the pace, so that what is shown is the node's work and not a queue's."""
POLL_SECONDS = 0.02
BATCH_BYTES = 16 << 10
SILENT_SECONDS_MAX = 30
GAUGES = 97
PORTS = ("Brest", "Saint-Malo", "Bristol", "Burntcoat Head")


class DemoFailed(Exception):
    """What a client or the node did wrong, in one line."""


def reading(number: int) -> tuple[bytes, bytes]:
    """Key and value of a record: the height of a tide, the same every time."""
    value = (
        f'{{"number": {number}, "port": "{PORTS[number % len(PORTS)]}", '
        f'"height_m": {number * 7919 % 1600 / 100}, "quality": "checked by two observers"}}'
    )
    return b"gauge-%d" % (number % GAUGES), value.encode()


class Pace(NamedTuple):
    """How many records are sent between two looks, and how many may be unacknowledged.

    Of few records so few that the first third is acknowledged before the last are sent: then a
    leader can die under load.
    """

    chunk: int
    unacknowledged_max: int

    @classmethod
    def of(cls, count: int) -> Pace:
        return cls(min(CHUNK_MAX, max(1, count // 10)), min(UNACKNOWLEDGED_MAX, count // 3))

    def chunks(self, count: int) -> Iterator[range]:
        """The numbers of the records."""
        for first in range(0, count, self.chunk):
            yield range(first, min(first + self.chunk, count))


class Received:
    """Looks at every record that comes back: whole, once, and in the order of its partition."""

    def __init__(self, count: int) -> None:
        self.records = 0
        self.bytes = 0
        self._is_missing = bytearray(b"\1" * count)
        self._last: dict[int, tuple[int, int]] = {}

    def take(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        text = value or b""
        number = int(text[len(b'{"number": ') : text.index(b",")])
        if (key, value) != reading(number):
            raise DemoFailed(f"record {number} came back changed: {value!r}")
        last_offset, last_number = self._last.get(partition, (-1, -1))
        if offset != last_offset + 1 or number <= last_number or not self._is_missing[number]:
            raise DemoFailed(f"record {number} at offset {offset} of {partition} is out of order")
        self._last[partition] = offset, number
        self._is_missing[number] = 0
        self.records += 1
        self.bytes += len(text) + len(key or b"")

    def position(self, partition: int) -> int:
        """The next offset to come."""
        return self._last.get(partition, (-1, -1))[0] + 1


class DemoClient(Protocol):
    """What the demo does with either client."""

    name: str

    def create_topic(self, topic: str) -> None: ...

    def produce(self, topic: str, count: int) -> Iterator[int]:
        """Yields how many are acknowledged while others are on their way, and at the end."""
        ...

    def consume(self, topic: str, received: Received, count: int) -> Iterator[int]: ...


class LibrdkafkaClient:
    """confluent-kafka, as its documentation says to use it. Raises ImportError if it is absent."""

    def __init__(self, bootstrap_servers: str) -> None:
        import confluent_kafka

        self.name = f"confluent-kafka {confluent_kafka.__version__}"
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}

    def create_topic(self, topic: str) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic  # where its types are declared

        admin = AdminClient(self._settings)
        wanted = NewTopic(topic, PARTITIONS, 1, config=TOPIC_CONFIGS)
        try:
            admin.create_topics([wanted])[topic].result()
        except KafkaException as error:
            raise DemoFailed(f"topic {topic} was not created: {error.args[0].str()}") from None

    def produce(self, topic: str, count: int) -> Iterator[int]:
        from confluent_kafka import Producer

        acknowledged = 0

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            nonlocal acknowledged
            if error is not None:
                raise DemoFailed(f"a record was not taken: {error.str()}")
            acknowledged += 1

        own = {"enable.idempotence": True, "message.timeout.ms": SILENT_SECONDS_MAX * 1000}
        producer = Producer({**self._settings, **own})
        try:
            pace = Pace.of(count)
            for chunk in pace.chunks(count):
                for number in chunk:
                    key, value = reading(number)
                    producer.produce(topic, key=key, value=value, on_delivery=on_delivery)
                yield acknowledged
                producer.poll(0)
                while len(producer) > pace.unacknowledged_max:
                    yield acknowledged
                    producer.poll(POLL_SECONDS)
            while producer.flush(POLL_SECONDS):
                yield acknowledged
            yield acknowledged
        finally:
            producer.purge()

    def consume(self, topic: str, received: Received, count: int) -> Iterator[int]:
        from confluent_kafka import Consumer
        from confluent_kafka import TopicPartition as Place

        # The client wants a group's name, but partitions that are assigned need no group.
        consumer = Consumer({**self._settings, "group.id": "demo", "enable.auto.commit": False})
        try:
            consumer.assign([Place(topic, index, 0) for index in range(PARTITIONS)])
            while received.records < count:
                wanted = min(CHUNK_MAX, count - received.records)
                messages = consumer.consume(wanted, timeout=SILENT_SECONDS_MAX)
                if not messages:
                    raise DemoFailed(f"only {received.records:,} of {count:,} came back")
                for message in messages:
                    error = message.error()
                    if error is not None:
                        raise DemoFailed(f"the consumer was told: {error.str()}")
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    received.take(partition, offset, message.key(), message.value())
                yield received.records
        finally:
            consumer.close()


class OwnClient:
    """Tidelog's client, for machines without another one."""

    name = "Tidelog's own client (confluent-kafka is not installed)"

    def __init__(self, client: Client) -> None:
        self._client = client

    def create_topic(self, topic: str) -> None:
        wanted = NewTopic(topic, PARTITIONS, 1, configs=TOPIC_CONFIGS)
        errors = self._client.run(create_topics, [wanted])
        for error in filter(None, errors.values()):
            raise DemoFailed(str(error))

    def produce(self, topic: str, count: int) -> Iterator[int]:
        acknowledged = 0

        def on_acknowledged(partition: TopicPartition, records: int, produced: object) -> None:
            nonlocal acknowledged
            acknowledged += records

        producer = Producer(on_acknowledged=on_acknowledged)
        pace = Pace.of(count)
        for chunk in pace.chunks(count):
            for partition, batch in _batches(topic, chunk):
                self._client.run(producer.send, partition, batch)
            yield acknowledged
            if chunk.stop - acknowledged > pace.unacknowledged_max:
                self._client.run(producer.flush)
        self._client.run(producer.flush)
        yield acknowledged

    def consume(self, topic: str, received: Received, count: int) -> Iterator[int]:
        places = {TopicPartition(topic, index): 0 for index in range(PARTITIONS)}
        while received.records < count:
            before = received.records
            for place, fetched in self._client.run(fetch, places).items():
                for batch in fetched.batches():
                    for record in read_records(batch):
                        if record.offset >= fetched.fetch_offset:
                            received.take(place.partition, record.offset, record.key, record.value)
                places[place] = fetched.next_offset()
                yield received.records
            if received.records == before:
                raise DemoFailed(f"only {received.records:,} of {count:,} came back")


def _batches(topic: str, numbers: range) -> Iterator[tuple[TopicPartition, bytearray]]:
    builders = [BatchBuilder() for _ in range(PARTITIONS)]
    for number in numbers:
        key, value = reading(number)
        index = partition_of_key(key, PARTITIONS)
        builders[index].append(key, value, timestamp=time.time_ns() // 1_000_000)
        if builders[index].records_size >= BATCH_BYTES:
            yield TopicPartition(topic, index), builders[index].build()
            builders[index] = BatchBuilder()
    for index, builder in enumerate(builders):
        if builder.record_count:
            yield TopicPartition(topic, index), builder.build()
