"""The orders of `tidelog demo`: what is written for Spark to read, and what must come out."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli.demo_clients import PORTS, DemoFailed
from tidelog.client.cluster import TopicPartition
from tidelog.client.partitioner import partition_of_key
from tidelog.client.produce import produce
from tidelog.client.topics import NewTopic, create_topics
from tidelog.wire.batch_builder import BatchBuilder

if TYPE_CHECKING:
    from tidelog.client import Client

ORDERS, TOTALS = "orders", "orders-per-minute"
PARTITIONS = 3
COUNT = 60_000
CHUNK = 1_200
CHUNKS_A_SECOND = 10
"""So that a stream has something to wait for; all of them take five seconds."""
MS_BETWEEN = 10
MINUTE_MS = 60_000


class Total(NamedTuple):
    """Of one port and one minute."""

    orders: int
    cents: int


Totals = dict[tuple[int, str], Total]
"""By the minute, in milliseconds since 1970, and the port."""


class Order(NamedTuple):
    """One of them, the same every time."""

    number: int
    timestamp_ms: int

    @property
    def port(self) -> str:
        return PORTS[self.number * 7919 % 97 % len(PORTS)]

    @property
    def cents(self) -> int:
        return self.number * 104_729 % 20_000 + 99

    @property
    def value(self) -> bytes:
        return json.dumps({"order": self.number, "port": self.port, "cents": self.cents}).encode()


class Orders:
    """Ten minutes of orders."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms - start_ms % MINUTE_MS

    def __getitem__(self, number: int) -> Order:
        return Order(number, self._start_ms + number * MS_BETWEEN)

    def totals(self) -> Totals:
        """What a right aggregation comes to."""
        orders: Counter[tuple[int, str]] = Counter()
        cents: Counter[tuple[int, str]] = Counter()
        for number in range(COUNT):
            order = self[number]
            key = order.timestamp_ms - order.timestamp_ms % MINUTE_MS, order.port
            orders[key] += 1
            cents[key] += order.cents
        return {key: Total(count, cents[key]) for key, count in orders.items()}


class OrderDesk(threading.Thread):
    """Takes orders for some seconds, and writes each to its port's partition."""

    def __init__(self, client: Client, orders: Orders) -> None:
        super().__init__(name="orders", daemon=True)
        self.failure: Exception | None = None
        self._client = client
        self._orders = orders
        self._stopping = threading.Event()

    def create_topics(self) -> None:
        wanted = [NewTopic(name, PARTITIONS, 1) for name in (ORDERS, TOTALS)]
        for error in filter(None, self._client.run(create_topics, wanted).values()):
            raise DemoFailed(str(error))

    def run(self) -> None:
        try:
            for first in range(0, COUNT, CHUNK):
                self._write(range(first, first + CHUNK))
                if self._stopping.wait(1 / CHUNKS_A_SECOND):
                    return
        except Exception as error:
            self.failure = error

    def stop(self) -> None:
        """Whatever is not written yet is not written."""
        self._stopping.set()
        self.join()

    def _write(self, numbers: range) -> None:
        builders: dict[int, BatchBuilder] = {}
        for number in numbers:
            order = self._orders[number]
            key = order.port.encode()
            builder = builders.setdefault(partition_of_key(key, PARTITIONS), BatchBuilder())
            builder.append(key, order.value, timestamp=order.timestamp_ms)
        batches = {TopicPartition(ORDERS, p): b.build() for p, b in builders.items()}
        self._client.run(produce, batches)
