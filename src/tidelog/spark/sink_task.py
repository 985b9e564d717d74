"""One task of the sink: gathers Arrow batches, encodes them, and has them acknowledged."""

from __future__ import annotations

import os
import random
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from tidelog.client import BrokerError, Client, ClientSettings, TopicPartition
from tidelog.client.cluster import Cluster, KnownTopic
from tidelog.client.producer import Producer
from tidelog.client.producer_settings import ProducerSettings
from tidelog.client.routing import Attempts, learn_topics
from tidelog.client.steps import Steps
from tidelog.errors import ErrorCode
from tidelog.spark.connections import client_for, discard
from tidelog.spark.encode import (
    SINK_COLUMNS,
    TOPIC,
    BatchEncoder,
    NoSuchPartition,
    TopicRows,
    UnwritableRow,
    topics_of,
)
from tidelog.spark.sink_options import SinkOptions
from tidelog.spark.worker import settle
from tidelog.wire.records_types import Placement

GATHERED_BYTES_MAX = 8 << 20
"""Rows that wait for more, at most; what is encoded of them comes on top."""
TURN_BYTES_MAX = 16 << 10
"""Of rows without a key to one partition before the next has its turn. It is Kafka's batch.size:
batches are larger, as they are made of many turns, but few rows spread as evenly."""
PRODUCERS_MAX = 64


class Written(NamedTuple):
    """What a task did."""

    rows: int
    batches: int
    batch_bytes: int


def write_rows(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write them all and return when brokers have acknowledged them. Raises UnwritableRow and
    ClientError; of the rows, some may be written then."""
    settle()
    producer = _kept.take(options)
    task = SinkTask(options, client_for(options.client), producer)
    try:
        task.write_all(batches)
    except BaseException:
        # Requests are under way, or the producer has given up: the next task begins anew.
        discard(options.client)
        raise
    _kept.put(options, producer)
    return Written(task.rows, task.batches, task.batch_bytes)


class SinkTask:
    """Writes the rows of one task through a client and a producer that it has for itself."""

    def __init__(self, options: SinkOptions, client: Client, producer: Producer) -> None:
        self.options = options
        self.rows = self.batches = self.batch_bytes = 0
        self._client = client
        self._producer = producer
        self._placements: dict[str, Placement] = {}
        settings = options.producer
        self._encoder = BatchEncoder(
            batch_bytes=settings.batch_bytes,
            request_bytes_max=settings.request_bytes_max,
            compression=settings.compression,
            compression_level=settings.compression_level,
            ignore_keys=settings.ignore_keys,
            is_stamped_later=settings.idempotent,
        )

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write and wait until all is acknowledged."""
        wanted = [name for name in SINK_COLUMNS if name != TOPIC or self.options.topic is None]
        selected = (_select(batch, wanted) for batch in batches if batch.num_rows)
        linger_ms = self.options.producer.linger_ms
        for rows in gathered(selected, self._full_bytes, linger_ms, _monotonic_ms):
            self.write(rows)
        self._client.run(self._producer.flush)

    def write(self, rows: pa.RecordBatch) -> None:
        """Hand rows to the producer; they are under way, not yet acknowledged."""
        given = topics_of(rows, self.options.topic)
        self._learn(given.topics)
        try:
            self._send(given)
        except NoSuchPartition as error:
            # The topic may have been given more partitions since; nothing of these rows is sent.
            known = self._placements[error.topic].partition_count
            self._client.cluster.forget([error.topic])
            self._learn([error.topic])
            if self._placements[error.topic].partition_count == known:
                raise
            self._send(given)

    def _send(self, given: TopicRows) -> None:
        smaller = self._producer.records_bytes_max.get
        now_ms = round(time.time() * 1000)
        for partition, batch, count in self._encoder.encode(
            given, self._placements, now_ms, smaller
        ):
            self.rows += count
            self.batches += 1
            self.batch_bytes += len(batch)
            self._client.run(self._producer.send, partition, batch)

    def _full_bytes(self) -> int:
        """How many rows fill a batch of each partition."""
        partitions = sum(place.partition_count for place in self._placements.values())
        most = min(GATHERED_BYTES_MAX, self.options.producer.buffer_bytes)
        return min(partitions * self._encoder.batch_bytes, most)

    def _learn(self, topics: Iterable[str]) -> None:
        """Know these topics' partitions, as fresh as metadata.max.age.ms wants them."""
        cluster = self._client.cluster
        settings = self.options.producer
        stale = [topic for topic in topics if not _is_fresh(cluster, topic)]
        if stale:
            # Known topics are asked for anew while brokers are away, and then there is more time.
            is_new = any(topic not in cluster.topics for topic in stale)
            timeout_ms = settings.block_ms_max if is_new else settings.delivery_timeout_ms
            try:
                self._client.run(_learn_topics, stale, timeout_ms)
            except BrokerError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                raise UnwritableRow(
                    f"{error.about} does not exist, and the brokers do not create it on demand "
                    "(auto.create.topics.enable): create it first"
                ) from error
        for topic in topics:
            self._place(topic, cluster.topics[topic], cluster)

    def _place(self, topic: str, known: KnownTopic, cluster: Cluster) -> None:
        place = self._placements.get(topic)
        count = len(known.leaders)
        if place is not None and place.partition_count == count:
            return
        led = [
            index
            for index in range(count)
            if cluster.leader_of(TopicPartition(topic, index)) is not None
        ]
        available = array("i", led or range(count))
        turn = random.randrange(len(available))
        turn_bytes = min(TURN_BYTES_MAX, self._encoder.batch_bytes)
        self._placements[topic] = Placement(count, available, turn_bytes, turn)


def gathered(
    batches: Iterator[pa.RecordBatch],
    full_bytes: Callable[[], int],
    linger_ms: int,
    now_ms: Callable[[], int],
) -> Iterator[pa.RecordBatch]:
    """Small batches together, until they are full or the first has lingered long enough: many
    partitions would else get a few rows at a time."""
    waiting: list[pa.RecordBatch] = []
    size = since_ms = 0
    for batch in batches:
        if not waiting:
            since_ms = now_ms()
        waiting.append(batch)
        size += batch.nbytes
        if size >= full_bytes() or now_ms() - since_ms >= linger_ms:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _select(batch: pa.RecordBatch, wanted: list[str]) -> pa.RecordBatch:
    return batch.select([name for name in wanted if name in batch.schema.names])


def _is_fresh(cluster: Cluster, topic: str) -> bool:
    known = cluster.topics.get(topic)
    if known is None:
        return False
    return cluster.now_ms() - known.learned_ms < cluster.settings.metadata_max_age_ms


def _learn_topics(cluster: Cluster, topics: list[str], timeout_ms: int) -> Steps[None]:
    attempts = Attempts(cluster, timeout_ms)
    yield from learn_topics(cluster, topics, attempts, allow_auto_topic_creation=True)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Producers(threading.local):
    """Producers of this thread that have nothing under way. A worker's next task goes on with
    one: brokers remember every producer for a day."""

    def __init__(self) -> None:
        self._idle: dict[tuple[int, ClientSettings, ProducerSettings], Producer] = {}

    def take(self, options: SinkOptions) -> Producer:
        """An idle one, or a new one."""
        found = self._idle.pop(self._key(options), None)
        return found or _new_producer(options.producer)

    def put(self, options: SinkOptions, producer: Producer) -> None:
        """Keep it for the next task."""
        assert not producer.unacknowledged_bytes
        if len(self._idle) >= PRODUCERS_MAX:
            del self._idle[next(iter(self._idle))]
        self._idle[self._key(options)] = producer

    @staticmethod
    def _key(options: SinkOptions) -> tuple[int, ClientSettings, ProducerSettings]:
        # A forked child has a copy, whose sequences would be its parent's.
        return os.getpid(), options.client, options.producer


def _new_producer(settings: ProducerSettings) -> Producer:
    return Producer(
        acks=settings.acks,
        idempotent=settings.idempotent,
        delivery_timeout_ms=settings.delivery_timeout_ms,
        retries=settings.retries,
        in_flight_max=settings.in_flight_max,
        unacknowledged_bytes_max=settings.buffer_bytes,
        request_bytes_max=settings.request_bytes_max,
        allow_auto_topic_creation=True,
    )


_kept = _Producers()
