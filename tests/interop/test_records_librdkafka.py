"""librdkafka, through its in-process mock broker, which keeps batches as they were sent: we read
what it writes, and it reads what we write."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.suite import SECONDS_MAX
from tests.unit.wire.record_samples import java_samples
from tidelog.wire.batch import BatchWalk, RecordBatch
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records
from tidelog.wire.batch_validation import ProduceRules, ValidBatch, validate_produced
from tidelog.wire.codec import decode, encode
from tidelog.wire.compression import Compression
from tidelog.wire.declare import Message
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

pytestmark = pytest.mark.interop

SAMPLES = java_samples(400)
PRODUCE_VERSION, FETCH_VERSION = 7, 11  # the last with the plain request header


@pytest.fixture(scope="module")
def producer() -> Iterator[Producer]:
    """It hosts the mock broker too."""
    yield Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", "linger.ms": 50})


@pytest.fixture
def address(producer: Producer) -> tuple[str, int]:
    (broker,) = producer.list_topics(timeout=SECONDS_MAX).brokers.values()
    return broker.host, broker.port


def call(address: tuple[str, int], request: Message, key: int, version: int) -> bytes:
    """One request, one answer, without the frame and the header."""
    body = struct.pack(">hhih", key, version, 1, -1) + encode(request, version)
    with contextlib.closing(socket.create_connection(address, SECONDS_MAX)) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return stream.read(size)[4:]


def fetch(address: tuple[str, int], topic: str, offset: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
    request = FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        topics=(FetchTopic(topic=topic, partitions=(partition,)),),
    )
    answer = call(address, request, 1, FETCH_VERSION)
    (found,) = decode(FetchResponse, FETCH_VERSION, answer).responses
    assert found.partitions[0].error_code == 0
    return bytes(found.partitions[0].records or b"")


def produce(address: tuple[str, int], topic: str, batch: bytes) -> None:
    data = TopicProduceData(
        name=topic, partition_data=(PartitionProduceData(index=0, records=batch),)
    )
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=(data,))
    answer = call(address, request, 0, PRODUCE_VERSION)
    (found,) = decode(ProduceResponse, PRODUCE_VERSION, answer).responses
    assert found.partition_responses[0].error_code == 0


@pytest.mark.parametrize("codec", Compression)
def test_we_read_what_librdkafka_writes(
    producer: Producer, address: tuple[str, int], codec: Compression
) -> None:
    topic = f"theirs-{codec.name.lower()}"
    host, port = address
    config = {"bootstrap.servers": f"{host}:{port}", "linger.ms": 100}
    client = Producer(
        config | {"compression.type": codec.name.lower(), "topic.metadata.refresh.interval.ms": -1}
    )
    for sample in SAMPLES:
        headers: Any = [(key.decode(), value) for key, value in sample.headers]
        client.produce(
            topic,
            sample.value,
            sample.key,
            partition=0,
            timestamp=sample.timestamp,
            headers=headers,
        )
    assert client.flush(SECONDS_MAX) == 0
    batches: list[RecordBatch] = []
    # The mock broker answers with one batch, and a busy client may send several.
    while not batches or batches[-1].next_offset < len(SAMPLES):
        walk = BatchWalk(fetch(address, topic, batches[-1].next_offset if batches else 0))
        found = list(walk)
        assert found
        assert walk.flaw is None
        batches += found
    assert any(batch.codec == codec for batch in batches)
    read = [record for batch in batches for record in read_records(batch)]
    assert read == SAMPLES
    for batch in batches:
        assert_accepted(batch)


def assert_accepted(batch: RecordBatch) -> None:
    """As a broker would have taken it, at offset 0."""
    data = bytearray(batch.to_view())
    data[:8] = bytes(8)
    answer = validate_produced(data, ProduceRules(), produce_version=9, now_ms=1_700_000_000_000)
    assert isinstance(answer, ValidBatch), answer
    assert answer.max_timestamp == max(record.timestamp for record in read_records(batch))


@pytest.mark.parametrize("codec", Compression)
def test_librdkafka_reads_what_we_write(
    producer: Producer, address: tuple[str, int], codec: Compression
) -> None:
    topic = f"ours-{codec.name.lower()}"
    producer.list_topics(topic, timeout=SECONDS_MAX)  # makes it
    builder = BatchBuilder()
    for sample in SAMPLES:
        builder.append(sample.key, sample.value, timestamp=sample.timestamp, headers=sample.headers)
    produce(address, topic, bytes(builder.build(compression=codec)))
    host, port = address
    consumer = Consumer(
        {
            "bootstrap.servers": f"{host}:{port}",
            "group.id": "readers",
            "check.crcs": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(len(SAMPLES), timeout=SECONDS_MAX)
    consumer.close()
    read = []
    for message in messages:
        assert message.error() is None, message.error()
        theirs: Any = message.headers() or []
        headers = [(key.encode(), value) for key, value in theirs]
        read.append(
            (
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(headers),
            )
        )
    assert read == [tuple(sample) for sample in SAMPLES]
