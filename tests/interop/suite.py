"""What every client library must be able to do; each one's module brings its `Client`."""

from __future__ import annotations

import abc
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal, NamedTuple

import pytest

Headers = tuple[tuple[str, bytes | None], ...]
Acks = Literal["0", "1", "all", "idempotent"]
"""How a record is acknowledged; `idempotent` is all, with a producer id and sequences."""

ACKS: tuple[Acks, ...] = ("0", "1", "all", "idempotent")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEGABYTE = 1_000_000
"""A large record's value. Kafka's default max.message.bytes leaves 48,588 bytes around it."""

HUNDRED_THOUSAND = 100_000
PARTITIONS = 4
SECONDS_MAX = 120
"""What anything may take. It takes a moment, but on a slow machine with other work it may not."""
PAUSE_SECONDS = 0.01

TIMESTAMP_MS = 1_700_000_000_000
_serial = itertools.count()


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = TIMESTAMP_MS


class Received(NamedTuple):
    offset: int
    record: Record


class Begin(NamedTuple):
    """Read from the log start offset."""


class End(NamedTuple):
    """Read what comes after `then` was called, at the log end."""

    then: Callable[[], object]


class Offset(NamedTuple):
    offset: int


class Timestamp(NamedTuple):
    """Read from the first record at or after this time."""

    timestamp_ms: int


Start = Begin | End | Offset | Timestamp


class Client(abc.ABC):
    """One library, reduced to what all have."""

    cannot_send: ClassVar[frozenset[str]] = frozenset()
    """Names of odd records that this library refuses by itself."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def close(self) -> None:  # noqa: B027 (most keep nothing)
        """End what this library keeps open between calls, if anything."""

    @abc.abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None: ...

    @abc.abstractmethod
    def produce(
        self, topic: str, partition: int, records: Sequence[Record], acks: Acks, codec: str
    ) -> list[int | None]:
        """Returns when all are acknowledged: their offsets, None where acks=0 leaves it unknown."""

    @abc.abstractmethod
    def consume(self, topic: str, partition: int, start: Start, count: int) -> list[Received]:
        """The next `count` records from there on, of an assigned partition."""

    @abc.abstractmethod
    def end_offset(self, topic: str, partition: int) -> int: ...


def new_topic() -> str:
    """A name that no other test has used, nor a run before it on the same node."""
    return f"t{os.getpid()}-{time.time_ns() // 1_000_000_000}-{next(_serial)}"


def eventually(holds: Callable[[], bool]) -> None:
    """A broker of Apache Kafka learns what the controller has acknowledged a moment later."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "did not come true"
        pause()


def pause() -> None:
    """Before asking again: the broker needs the processors to come to what it is asked for."""
    threading.Event().wait(PAUSE_SECONDS)


def small_records(count: int, step_ms: int = 0) -> list[Record]:
    """Records that differ in everything, `step_ms` apart in time."""
    return [
        Record(
            value=b"value-%d" % i * (1 + i % 7),
            key=b"key-%d" % i,
            headers=(("n", b"%d" % i),),
            timestamp_ms=TIMESTAMP_MS + i * step_ms,
        )
        for i in range(count)
    ]


ODD_RECORDS = {
    "nothing at all": Record(value=None),
    "null key": Record(value=b"v"),
    "null value": Record(value=None, key=b"k"),
    "zero bytes": Record(value=b"", key=b""),
    "headers": Record(
        value=b"v", key=b"k", headers=(("a", b"1"), ("a", b"2"), ("empty", b""), ("ü", b"\x00\xff"))
    ),
    "a megabyte": Record(value=os.urandom(MEGABYTE), key=b"large"),
    "a megabyte of key": Record(value=b"", key=bytes(MEGABYTE)),
    "the epoch": Record(value=b"1970", timestamp_ms=1),
}


def numbered(received: Sequence[Received]) -> list[tuple[int, Record]]:
    return [(r.offset, r.record) for r in received]


class ClientSuite:
    """Subclassed by each library's module, with its `Client`."""

    library: ClassVar[type[Client]]

    @pytest.fixture
    def client(self, bootstrap_servers: str) -> Iterator[Client]:
        client = self.library(bootstrap_servers)
        yield client
        client.close()

    @pytest.fixture
    def topic(self, client: Client) -> str:
        name = new_topic()
        client.create_topic(name, 1)
        return name

    @pytest.mark.parametrize("acks", ACKS)
    def test_every_acks_and_codec(self, client: Client, topic: str, acks: Acks) -> None:
        """One topic, so that a batch of each codec follows one of another."""
        records = small_records(40, step_ms=1)
        for round_number, codec in enumerate(CODECS):
            offsets = client.produce(topic, 0, records, acks, codec)
            first = round_number * len(records)
            expected = list(range(first, first + len(records)))
            assert offsets == ([None] * len(records) if acks == "0" else expected)
            received = client.consume(topic, 0, Offset(first), len(records))
            assert numbered(received) == list(zip(expected, records, strict=True))
        assert client.end_offset(topic, 0) == len(CODECS) * len(records)

    @pytest.mark.parametrize("codec", CODECS)
    def test_odd_records(self, client: Client, topic: str, codec: str) -> None:
        sendable = {k: r for k, r in ODD_RECORDS.items() if k not in client.cannot_send}
        records = list(sendable.values())
        offsets = client.produce(topic, 0, records, "all", codec)
        assert offsets == list(range(len(records)))
        received = client.consume(topic, 0, Begin(), len(records))
        for name, sent, (offset, record) in zip(sendable, records, received, strict=True):
            assert record == sent, f"{name}, at offset {offset}"

    @pytest.mark.parametrize("codec", ["none", "zstd"])
    def test_begin_end_offset_and_timestamp(self, client: Client, topic: str, codec: str) -> None:
        """Offsets and times inside a batch: a broker finds the record, not only the batch."""
        records = small_records(100, step_ms=10)
        client.produce(topic, 0, records[:90], "1", codec)

        def produce_more() -> None:
            client.produce(topic, 0, records[90:], "1", codec)

        assert numbered(client.consume(topic, 0, Begin(), 1)) == [(0, records[0])]
        after_end = client.consume(topic, 0, End(produce_more), 10)
        assert numbered(after_end) == list(enumerate(records))[90:]
        assert numbered(client.consume(topic, 0, Offset(37), 3)) == list(enumerate(records))[37:40]
        between = Timestamp(records[41].timestamp_ms + 5)
        assert numbered(client.consume(topic, 0, between, 2)) == list(enumerate(records))[42:44]
        exact = Timestamp(records[95].timestamp_ms)
        assert numbered(client.consume(topic, 0, exact, 1)) == [(95, records[95])]

    def test_hundred_thousand_records_one_by_one(self, client: Client) -> None:
        topic = new_topic()
        client.create_topic(topic, PARTITIONS)
        each = HUNDRED_THOUSAND // PARTITIONS
        for partition in range(PARTITIONS):
            sent = [
                Record(value=b"%d:%d:%s" % (partition, i, b"x" * (i % 100)), key=b"%d" % i)
                for i in range(each)
            ]
            codec = ("none", "lz4")[partition % 2]
            offsets = client.produce(topic, partition, sent, "all", codec)
            assert offsets == list(range(each))
            assert client.end_offset(topic, partition) == each
            received = client.consume(topic, partition, Begin(), each)
            for i, (offset, record) in enumerate(received):
                assert (offset, record) == (i, sent[i])
            assert len(received) == each
