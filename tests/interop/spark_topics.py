"""Topics of every kind, for Apache Kafka to write: codecs, nulls, headers, append times, the gaps
that compaction and transactions leave, logs that no longer begin at 0."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.suite import CODECS, TIMESTAMP_MS, eventually
from tidelog.client import Client, ClientSettings, parse_servers
from tidelog.client import TopicPartition as Place
from tidelog.client.fetch import fetch

EAGER_CLEANER = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.initial.task.delay.ms": "0",
}
CLEANER_SECONDS = 0.1
RECORDS = 300
KEYS = 5
CUT_OFFSET = 107
"""Within a batch."""

TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "codecs": (len(CODECS) + 1, {}),
    "appended": (2, {"message.timestamp.type": "LogAppendTime"}),
    "compacted": (1, {"cleanup.policy": "compact", "segment.ms": "100"}),
    "transactions": (2, {}),
    "cut": (1, {}),
    "empty": (3, {}),
}
"""Of each the partitions and the configs."""


def write_topics(bootstrap_servers: str) -> None:
    """Make and fill all of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    new = [NewTopic(name, count, 1, config=dict(c)) for name, (count, c) in TOPICS.items()]
    for future in admin.create_topics(new).values():
        future.result()
    for partition, codec in enumerate(CODECS):
        fill(bootstrap_servers, "codecs", partition, codec)
    fill(bootstrap_servers, "appended", 0, "lz4")
    fill(bootstrap_servers, "cut", 0, "none")
    admin.delete_records([TopicPartition("cut", 0, CUT_OFFSET)])[TopicPartition("cut", 0)].result()
    write_transactions(bootstrap_servers)
    write_until_compacted(bootstrap_servers)


def fill(bootstrap_servers: str, topic: str, partition: int, codec: str, first: int = 0) -> None:
    """Records that differ in everything, several batches of them."""
    producer = new_producer(bootstrap_servers, **{"compression.type": codec, "linger.ms": 5})
    for n in range(first, first + RECORDS):
        send(producer, topic, partition, n)
        if n % 70 == 69:
            producer.flush()
    producer.flush()


def send(producer: Producer, topic: str, partition: int, n: int) -> None:
    """Keys, values and headers may be null, empty or not."""
    headers: list[tuple[str, bytes | None]] = [("n", b"%d" % n), ("n", None), ("ключ", b"")]
    producer.produce(
        topic,
        partition=partition,
        key=(None, b"", b"key-%d" % n)[n % 3],
        value=(b"value-%d" % n * (n % 50), None, b"")[n % 4 % 3],
        headers=headers[: n % 4],
        timestamp=TIMESTAMP_MS + n * 1000,
    )


def new_producer(bootstrap_servers: str, **config: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0, **config})


def write_transactions(bootstrap_servers: str) -> None:
    """One committed, one aborted and another committed, and records of none between them."""
    plain = new_producer(bootstrap_servers)
    producer = new_producer(bootstrap_servers, **{"transactional.id": "spark-parity"})
    producer.init_transactions()
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        for n in range(20):
            send(producer, "transactions", n % 2, number * 100 + n)
        producer.flush()  # what is not sent yet, an abort takes back
        end()
        send(plain, "transactions", 0, number * 100 + 99)
        plain.flush()


def write_until_compacted(bootstrap_servers: str) -> None:
    """The same keys again and again, until the log has holes, in steps that let the cleaner work:
    what reads the log need not be large."""
    producer = new_producer(bootstrap_servers)
    settings = ClientSettings(bootstrap_servers=parse_servers(bootstrap_servers))
    place = Place("compacted", 0)
    written = 0
    with Client(settings) as client:

        def has_holes() -> bool:
            nonlocal written
            threading.Event().wait(CLEANER_SECONDS)
            for n in range(written, written + 20):
                producer.produce(
                    "compacted", b"value-%d" % n, b"key-%d" % (n % KEYS), timestamp=TIMESTAMP_MS + n
                )
            producer.flush()
            written += 20
            found = client.run(fetch, {place: 0})[place]
            batches = list(found.batches())
            kept = sum(batch.record_count for batch in batches)
            return kept < batches[-1].next_offset - 2 * KEYS

        eventually(has_holes)
