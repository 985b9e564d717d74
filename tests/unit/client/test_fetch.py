"""Fetched batches: which are whole, which count, where to go on, and the fetch that runs ahead."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.memory import MemoryBroker, MemoryCluster, MemoryShell, topic_id

from tidelog.client import BrokerError, CorruptBatch, TopicPartition
from tidelog.client.fetch import (
    LAST_FETCH_BYTES_MIN,
    OFFSET_BYTES,
    Fetched,
    FetchLimits,
    PartitionReader,
    fetch,
)
from tidelog.client.offsets import IsolationLevel
from tidelog.client.steps import Abandon, Finish, Start
from tidelog.client.visibility import visible_batches
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.batch import CONTROL, TRANSACTIONAL, BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

ORDERS = TopicPartition("orders", 0)


def batch(base_offset: int, count: int = 10, **options: Any) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(None, b"%d" % (base_offset + number), timestamp=1000)
    return bytes(builder.build(base_offset=base_offset, **options))


def marker(base_offset: int, producer_id: int, *, commit: bool) -> bytes:
    builder = BatchBuilder()
    builder.append(b"\x00\x00\x00" + bytes([commit]), bytes(6), timestamp=1000)
    return bytes(
        builder.build(
            base_offset=base_offset,
            attributes=CONTROL | TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=0,
        )
    )


def fetched(records: bytes, offset: int = 0, aborted: Any = ()) -> Fetched:
    return Fetched(ORDERS, offset, memoryview(records), 100, 100, 0, tuple(aborted))


class MemoryLog:
    """One partition: batches of 10 records, two of them in an answer, 95 a record is a hole."""

    def __init__(self, batches: int = 10) -> None:
        self.log = b"".join(batch(10 * number) for number in range(batches))
        self.cluster = MemoryCluster(brokers=2)
        self.cluster.leaders["orders"] = {0: (1, 0)}
        self.offsets: list[int] = []
        self.codes: list[ErrorCode] = []
        self.cluster.handle(ApiKey.FETCH, self._answer)

    def _answer(self, broker: MemoryBroker, request: Any) -> FetchResponse:
        (topic,) = request.topics
        (partition,) = topic.partitions
        self.offsets.append(partition.fetch_offset)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        found = [b for b in BatchWalk(self.log) if b.last_offset >= partition.fetch_offset][:2]
        records = b"".join(bytes(b.to_view()) for b in found) + self.log[:30]
        data = PartitionData(
            partition_index=partition.partition,
            error_code=code,
            high_watermark=100,
            last_stable_offset=90,
            log_start_offset=0,
            aborted_transactions=None,
            records=b"" if code else records,
        )
        return FetchResponse(
            responses=(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=(data,)
                ),
            )
        )


def offsets_of(part: Fetched) -> list[int]:
    return [found.base_offset for found in part.batches()]


def test_a_fetch_gives_views_of_whole_batches_from_the_offset_on():
    log = MemoryLog()
    (part,) = MemoryShell(log.cluster).run(fetch, {ORDERS: 15}).values()
    assert isinstance(part.records, memoryview)
    assert offsets_of(part) == [10, 20]
    assert part.next_offset() == 30
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (100, 90, 0)


def test_batches_before_the_offset_are_left_out():
    records = batch(0) + batch(10) + batch(20)
    assert offsets_of(fetched(records, 10)) == [10, 20]
    assert offsets_of(fetched(records, 19)) == [10, 20]


def test_without_a_whole_batch_the_place_stays():
    assert fetched(b"", 7).next_offset() == 7
    assert fetched(batch(0)[:-1], 7).next_offset() == 7


def test_a_corrupt_batch_is_found_unless_nobody_asks():
    records = bytearray(batch(0) + batch(10))
    records[-1] ^= 1
    with pytest.raises(
        CorruptBatch, match="partition orders-0: the checksum is wrong at offset 10"
    ):
        list(fetched(bytes(records)).batches())
    assert len(list(fetched(bytes(records)).batches(check_crc=False))) == 2


def test_the_request_carries_limits_isolation_epoch_and_topic_id():
    log = MemoryLog()
    log.cluster.leaders["orders"] = {0: (1, 7)}
    limits = FetchLimits(max_wait_ms=1, min_bytes=2, max_bytes=3, partition_max_bytes=4)
    shell = MemoryShell(log.cluster)
    shell.run(fetch, {ORDERS: 0}, limits=limits, isolation=IsolationLevel.READ_COMMITTED)
    request = log.cluster.brokers[1].asked(ApiKey.FETCH)[0]
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (1, 2, 3)
    assert (request.isolation_level, request.session_epoch) == (1, -1)
    (topic,) = request.topics
    assert topic.topic_id == topic_id("orders")
    (partition,) = topic.partitions
    assert (partition.partition_max_bytes, partition.current_leader_epoch) == (4, 7)


def test_an_old_broker_is_asked_by_name():
    log = MemoryLog()
    for broker in log.cluster.brokers.values():
        broker.served |= {ApiKey.METADATA: (0, 9), ApiKey.FETCH: (4, 99)}
    (part,) = MemoryShell(log.cluster).run(fetch, {ORDERS: 0}).values()
    assert part.partition == ORDERS
    assert log.cluster.brokers[1].requests[-1].version == 12


def test_an_offset_out_of_range_is_raised_and_not_retried():
    log = MemoryLog()
    log.codes = [ErrorCode.OFFSET_OUT_OF_RANGE]
    with pytest.raises(BrokerError) as caught:
        MemoryShell(log.cluster).run(fetch, {ORDERS: 999})
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.offsets == [999]


def test_a_reader_has_the_next_fetch_on_its_way():
    log = MemoryLog()
    shell = MemoryShell(log.cluster)
    reader = PartitionReader(ORDERS, 5, 55)
    seen = []
    while (part := shell.run(reader.read)) is not None:
        seen += offsets_of(part)
        if reader.position < 55:
            assert log.offsets[-1] == reader.position
    assert seen == [0, 10, 20, 30, 40, 50]
    assert log.offsets == [5, 20, 40]
    assert reader.position == 60


def test_a_reader_of_few_records_asks_for_few_bytes():
    log = MemoryLog()
    shell = MemoryShell(log.cluster)

    def asked(start: int, end: int, **more: FetchLimits) -> list[int]:
        before = len(log.cluster.brokers[1].asked(ApiKey.FETCH))
        reader = PartitionReader(ORDERS, start, end, **more)
        while shell.run(reader.read) is not None:
            pass
        requests = log.cluster.brokers[1].asked(ApiKey.FETCH)[before:]
        return [request.topics[0].partitions[0].partition_max_bytes for request in requests]

    assert asked(5, 6) == [LAST_FETCH_BYTES_MIN]
    assert asked(0, 60)[0] == 60 * OFFSET_BYTES * 5 // 4
    assert asked(0, 60)[1:] == [LAST_FETCH_BYTES_MIN] * 2, "it has seen how small they are"
    assert asked(0, 60, limits=FetchLimits(partition_max_bytes=7)) == [7] * 3


def test_a_reader_at_the_end_of_the_log_does_not_run_ahead():
    log = MemoryLog(batches=2)
    shell = MemoryShell(log.cluster)
    reader = PartitionReader(ORDERS, 0)
    assert offsets_of(shell.run(reader.read)) == [0, 10]
    assert offsets_of(shell.run(reader.read)) == []
    assert log.offsets == [0, 20]


def test_a_reader_goes_on_after_an_error_that_passes():
    log = MemoryLog()
    log.codes = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    shell = MemoryShell(log.cluster)
    reader = PartitionReader(ORDERS, 0, 40)
    assert offsets_of(shell.run(reader.read)) == [0, 10]
    assert offsets_of(shell.run(reader.read)) == [20, 30]
    assert log.offsets == [0, 20, 20]
    assert len(log.cluster.brokers[1].asked(ApiKey.METADATA)) == 2


def test_a_closed_reader_leaves_no_request_behind():
    log = MemoryLog()
    shell = MemoryShell(log.cluster)
    reader = PartitionReader(ORDERS, 0)
    shell.run(reader.read)
    shell.run(reader.close)
    shell.run(reader.close)
    started = sum(isinstance(effect, Start) for effect in shell.effects)
    ended = sum(isinstance(effect, Finish | Abandon) for effect in shell.effects)
    assert started == ended == 3
    assert isinstance(shell.effects[-1], Abandon)


def test_markers_and_aborted_transactions_are_not_visible():
    transactional = {"attributes": TRANSACTIONAL, "producer_epoch": 0, "base_sequence": 0}
    records = b"".join(
        [
            batch(0),
            batch(10, producer_id=7, **transactional),
            batch(20, producer_id=8, **transactional),
            marker(30, 7, commit=False),
            batch(31, producer_id=7, **transactional),
            marker(41, 8, commit=True),
            marker(42, 7, commit=True),
        ]
    )
    aborted = [AbortedTransaction(producer_id=7, first_offset=10)]
    visible = [b.base_offset for b in visible_batches(fetched(records, aborted=aborted))]
    assert visible == [0, 20, 31]
    every = [b.base_offset for b in visible_batches(fetched(records))]
    assert every == [0, 10, 20, 31]
