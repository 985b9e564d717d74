"""Clients of a cluster in trouble: idempotent producers, and a reader that follows them. All that
they are told goes into a history."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.sequences import SETTINGS, Sequences
from tidelog.sim.history import History, Outcome, Place, Seen, Written
from tidelog.types import Uuid

PRODUCERS = 4
RECORDS_A_SECOND = 150
"""Of each producer."""
UNACKNOWLEDGED_MAX = 2_000
"""Of each producer: beyond them it waits, as an application would."""
PADDING_BYTES_MAX = 3_000
FLUSH_SECONDS_MAX = 180.0
END_SECONDS_MAX = 30.0
"""Of a thread that has nothing left to do."""
LOST = -1
"""The position of a reader in a partition where its offset is not there any more."""
POLL_SECONDS = 0.2

# A producer gives up never: with what happens to the cluster in the meantime every record is
# acknowledged in the end, or the cluster has not healed.
PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 0,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": 10_000,
}
ONE_AT_A_TIME = {"max.in.flight.requests.per.connection": 1}
STYLES: tuple[dict[str, object], ...] = (
    {"linger.ms": 0, **ONE_AT_A_TIME},
    {"linger.ms": 20, "compression.type": "lz4"},
    {"linger.ms": 5, "compression.type": "zstd", **ONE_AT_A_TIME},
    {"linger.ms": 0, "batch.num.messages": 3},
)


class Writer(threading.Thread):
    """One producer, to all partitions of the topic."""

    def __init__(self, name: str, load: Load, style: dict[str, object], seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self._load = load
        self._random = random.Random(seed)
        self.sequences = Sequences(name)
        settings = {**PRODUCER, **style, **SETTINGS, "bootstrap.servers": load.servers}
        self._producer = Producer(settings, logger=self.sequences.logger)
        self._unacknowledged = 0
        self.left = 0
        """Records of which nothing was heard, when it has ended."""

    def run(self) -> None:
        try:
            self._run()
        except (KafkaException, SystemError) as error:
            # Fatal to the producer: raised by any call, the second where that was in a callback.
            self._load.complain(f"{self.name} gives up: {error.__cause__ or error}")

    def _run(self) -> None:
        number = 0
        due = time.monotonic()
        while not self._load.is_over.is_set():
            due += 1 / RECORDS_A_SECOND
            while (early := due - time.monotonic()) > 0:
                self._producer.poll(early)
            if self._unacknowledged < UNACKNOWLEDGED_MAX:
                self._write(number)
                number += 1
            else:
                due = time.monotonic()
                self._producer.poll(POLL_SECONDS)
        self.left = self._producer.flush(FLUSH_SECONDS_MAX)

    def _write(self, number: int) -> None:
        partition = self._random.randrange(self._load.partitions)
        value = f"{self.name}-{number}.".encode()
        value += (
            self._random.randbytes(self._random.randrange(PADDING_BYTES_MAX // 2)).hex().encode()
        )
        place = self._load.place(partition)
        written = Written(self.name, place, (value,), -1, session=0)
        try:
            self._producer.produce(
                self._load.topic,
                value,
                partition=partition,
                on_delivery=partial(self._told, written),
            )
        except KafkaException as error:  # as soon as it believes that there is no such topic
            self._load.complain(f"{self.name}: {error}")
            return
        self._load.history.written.append(written)
        self._unacknowledged += 1

    def _told(self, written: Written, error: KafkaError | None, message: Message) -> None:
        self._unacknowledged -= 1
        if error is not None:
            self._load.complain(f"{self.name}: {error.str()}")
            return
        offset = message.offset()
        # A broker that has a batch already may not know its offsets any more.
        written.offset = -1 if offset is None else offset
        written.outcome = Outcome.ACKNOWLEDGED
        self._load.history.succeeded("produce")


class Reader(threading.Thread):
    """Follows every partition from its beginning, through all that happens to the cluster."""

    def __init__(self, name: str, load: Load) -> None:
        super().__init__(name=name, daemon=True)
        self._load = load
        self._positions = dict.fromkeys(range(load.partitions), 0)
        self._is_over: Callable[[], bool] = lambda: False

    def run(self) -> None:
        # What is enough is known only when the producers are done.
        read(self.name, self._load, self._positions, lambda: self._is_over())

    def finish(self, ends: Mapping[int, int], seconds_max: float) -> None:
        """Up to these offsets. It is this one that may have got stuck, not one that is new."""
        self._is_over = reached(self._positions, ends, seconds_max)
        self.join(seconds_max + END_SECONDS_MAX)
        complain_if_behind(self.name, self._load, self._positions, ends)

    def stop(self) -> None:
        """Wherever it is."""
        self._is_over = lambda: True
        self.join(END_SECONDS_MAX)
        if self.is_alive():
            self._load.complain(f"{self.name} does not end")


class Load:
    """Producers and a reader on one topic, from its start to the end of the context. The producers
    end at `stop`, the reader goes on until it is told how far."""

    def __init__(self, servers: str, topic: str, partitions: int, seed: int) -> None:
        self.servers = servers
        self.topic = topic
        self.partitions = partitions
        self.history = History()
        self.complaints: list[str] = []
        """What should not have happened."""
        self.raised: list[str] = []
        """Epochs that producers raised, and why."""
        self.is_over = threading.Event()
        self.writers = [
            Writer(f"producer{index}", self, STYLES[index % len(STYLES)], seed + index)
            for index in range(PRODUCERS)
        ]
        self.reader = Reader("reader", self)
        for thread in (*self.writers, self.reader):
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_over.is_set():
            self.stop()
        self.reader.stop()

    def place(self, partition: int) -> Place:
        return Place(Uuid(bytes(16)), partition)

    def complain(self, line: str) -> None:
        self.complaints.append(f"{time.strftime('%X')} {line}")

    def stop(self) -> None:
        """What producers have under way is finished: the cluster has to be well for that."""
        self.is_over.set()
        for writer in self.writers:
            writer.join(FLUSH_SECONDS_MAX + END_SECONDS_MAX)
            if writer.is_alive():
                self.complain(f"{writer.name} does not end")
            if writer.left:
                self.complain(f"{writer.name}: {writer.left} records were never acknowledged")
            for line in writer.sequences.raised:
                self.raised.append(f"{writer.name}: {line}")

    def excuse_raised_epochs(self) -> None:
        """What their producers wrote twice is nobody else's fault."""
        raised = {writer.name for writer in self.writers if writer.sequences.raised}
        for written in self.history.written:
            if written.producer in raised:
                written.session = None


def read(name: str, load: Load, positions: dict[int, int], is_over: Callable[[], bool]) -> None:
    """All records from the beginning on, into the history, until there is enough; the positions,
    by partition, are kept up to date."""
    consumer = Consumer(
        {
            "bootstrap.servers": load.servers,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 10_000,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(load.topic, index, 0) for index in range(load.partitions)])
    # It is not closed: librdkafka 2.16 may wait in there for ever, after leaders have changed.
    while not is_over():
        for message in consumer.consume(1_000, POLL_SECONDS):
            partition = message.partition() or 0
            error = message.error()
            if error is None:
                offset = message.offset() or 0
                seen = Seen(name, load.place(partition), offset, message.value() or b"")
                load.history.seen.append(seen)
                positions[partition] = offset + 1
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                load.complain(f"{name}: {error.str()}")
                # librdkafka fetches no more of it: nothing is left to wait for.
                positions[partition] = LOST


def read_all(name: str, load: Load, ends: Mapping[int, int], seconds_max: float) -> None:
    """Up to these offsets."""
    positions = dict.fromkeys(ends, 0)
    read(name, load, positions, reached(positions, ends, seconds_max))
    complain_if_behind(name, load, positions, ends)


def reached(
    positions: Mapping[int, int], ends: Mapping[int, int], seconds_max: float
) -> Callable[[], bool]:
    """Whether a reader is there by now, or has had its time."""
    deadline = time.monotonic() + seconds_max

    def is_so() -> bool:
        return not behind(positions, ends) or time.monotonic() > deadline

    return is_so


def behind(positions: Mapping[int, int], ends: Mapping[int, int]) -> list[int]:
    """Partitions of which there is more."""
    return [index for index, end in ends.items() if LOST != positions[index] < end]


def complain_if_behind(
    name: str, load: Load, positions: Mapping[int, int], ends: Mapping[int, int]
) -> None:
    for index in behind(positions, ends):
        load.complain(f"{name} got partition {index} up to {positions[index]}, not {ends[index]}")
