"""A producer's limits: how often and how long a batch is tried, how much is in flight."""

from __future__ import annotations

import random

import pytest
from tests.unit.client.memory import HANG_UP, MemoryShell
from tests.unit.client.test_producer import ORDERS, MemoryLogs, batch

from tidelog.client import BrokerError, TimedOut
from tidelog.client.producer import IN_FLIGHT_MAX, Producer
from tidelog.errors import ErrorCode
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records
from tidelog.wire.compression import Compression


class NarrowLogs(MemoryLogs):
    """Partitions that refuse batches above a size."""

    bytes_max = 1 << 20

    def _append(self, index, found, outcome):
        if found.size > self.bytes_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        return super()._append(index, found, outcome)


@pytest.fixture
def logs() -> NarrowLogs:
    return NarrowLogs()


@pytest.fixture
def shell(logs: NarrowLogs) -> MemoryShell:
    return MemoryShell(logs.cluster)


def numbered(count: int, start: int, compression: Compression) -> bytearray:
    builder = BatchBuilder()
    for number in range(start, start + count):
        value = random.Random(number).randbytes(200)
        builder.append(b"k%d" % number, value, timestamp=number, headers=((b"h", None),))
    return builder.build(compression=compression)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_batch_that_the_topic_refuses_as_too_large_is_split(logs, shell, compression):
    logs.bytes_max = 900
    producer = Producer()
    for start in (0, 40, 41):
        shell.run(producer.send, ORDERS[0], numbered(40 if not start else 1, start, compression))
    shell.run(producer.flush)
    records = [record for found in logs.appended[0] for record in read_records(found)]
    assert [record.timestamp for record in records] == list(range(42))
    assert records[7].key == b"k7"
    assert records[7].headers == ((b"h", None),)
    assert all(found.codec == compression and found.crc_is_right() for found in logs.appended[0])
    assert len(logs.appended[0]) > 5
    assert producer.unacknowledged_bytes == 0
    assert 0 < producer.records_bytes_max["orders"] < 8000


def test_one_record_that_is_too_large_is_an_error(logs, shell):
    logs.bytes_max = 900
    producer = Producer()
    shell.run(producer.send, ORDERS[0], batch(1, 1000))
    with pytest.raises(BrokerError, match=r"orders-0: .*larger than the topic's max.message.bytes"):
        shell.run(producer.flush)


def test_a_split_does_not_change_what_is_behind(logs, shell):
    logs.bytes_max = 300
    producer = Producer()
    for _ in range(4):
        shell.run(producer.send, ORDERS[0], batch(20))
    shell.run(producer.flush)
    sequences = logs.sequences(0)
    assert sequences == sorted(sequences)
    assert sum(found.record_count for found in logs.appended[0]) == 80


def test_a_batch_is_retried_as_often_as_allowed(logs, shell):
    logs.codes = [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    producer = Producer(retries=2)
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    logs.codes = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    shell.run(producer.send, ORDERS[0], batch())
    with pytest.raises(BrokerError) as caught:
        shell.run(producer.flush)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_time_in_which_nobody_calls_the_producer_does_not_count(logs, shell):
    producer = Producer(delivery_timeout_ms=60_000)
    logs.codes = [HANG_UP]
    shell.run(producer.send, ORDERS[0], batch())
    shell.time_ms += 3_600_000
    logs.codes = [ErrorCode.NOT_ENOUGH_REPLICAS]
    shell.run(producer.flush)
    assert logs.sequences(0) == [0]


def test_a_batch_that_fails_for_too_long_is_given_up_although_others_succeed(logs, shell):
    producer = Producer(delivery_timeout_ms=5_000)

    def answer(broker, request):
        (topic,) = request.topic_data
        is_bad = topic.partition_data[0].index == 1
        logs.codes = [ErrorCode.NOT_ENOUGH_REPLICAS if is_bad else ErrorCode.NONE]
        shell.time_ms += 500
        return logs._produce(broker, request)

    logs.cluster.handle(0, answer)
    with pytest.raises(TimedOut, match="not delivered within 5000 ms"):
        for _ in range(100):
            shell.run(producer.send, ORDERS[1], batch())
            shell.run(producer.send, ORDERS[0], batch())
            shell.run(producer._finish_oldest)


def test_each_partition_has_its_turn(logs, shell):
    producer = Producer(in_flight_max=1, request_bytes_max=250)
    for _ in range(4):
        shell.run(producer.send, ORDERS[1], batch(1, 10))
    for _ in range(2):
        shell.run(producer.send, ORDERS[2], batch(1, 200))
    shell.run(producer.flush)
    assert logs.requests == [[1], [1], [2], [1], [2], [1]]


def test_requests_in_flight_are_limited(logs, shell):
    producer = Producer(in_flight_max=2)
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    logs.requests.clear()
    for _ in range(6):
        shell.run(producer.send, ORDERS[0], batch())
    assert len(logs.requests) == 2
    with pytest.raises(ValueError, match="5 requests in flight"):
        Producer(in_flight_max=IN_FLIGHT_MAX + 1)
    Producer(in_flight_max=IN_FLIGHT_MAX + 1, idempotent=False)
