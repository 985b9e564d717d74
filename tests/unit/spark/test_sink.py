"""A task of the sink against a real node, read back by librdkafka; no JVM."""

from __future__ import annotations

import time
from collections import Counter

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from tests.interop.suite import SECONDS_MAX
from tests.unit.client.sockets import refused_address
from tests.unit.spark.written import Found, read_all, rows_of, writer_for

from tidelog.client import BrokerError, TimedOut, TopicPartition
from tidelog.client.fetch import fetch
from tidelog.spark import sink_task
from tidelog.spark.encode import NoSuchPartition, RecordTooLarge, UnwritableRow
from tidelog.spark.sink import WrittenRows
from tidelog.spark.sink_task import gathered


def test_rows_of_several_arrow_batches_arrive(topics):
    topics.create("written", 3)
    before_ms = time.time() * 1000
    first = rows_of(
        key=[b"a", None, b"c"],
        value=[b"1", None, b""],
        headers=[[("h", b"x"), ("i", None)], None, []],
        partition=[0, 1, 2],
    )
    second = rows_of(key=[b"d"], value=[b"4"], headers=[None], partition=[2])
    writer = writer_for(topics.bootstrap_servers, first, topic="written")
    message = writer.write(iter([first, first.slice(0, 0), second]))
    assert isinstance(message, WrittenRows)
    assert message.rows == 4
    assert read_all(topics.bootstrap_servers, "written", 3) == [
        Found(0, b"a", b"1", (("h", b"x"), ("i", None))),
        Found(1, None, None),
        Found(2, b"c", b""),
        Found(2, b"d", b"4"),
    ]
    (fetched,) = topics.client.run(fetch, {TopicPartition("written", 0): 0}).values()
    (batch,) = fetched.batches()
    assert before_ms - 1 <= batch.max_timestamp <= time.time() * 1000 + 1
    assert batch.has_producer_id


def test_keys_are_where_java_and_librdkafka_put_them(topics):
    keys = [b"key-%d" % number for number in range(300)]
    for name in ("by-librdkafka", "by-the-sink"):
        topics.create(name, 5)
    other = Producer(
        {"bootstrap.servers": topics.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for key in keys:
        other.produce("by-librdkafka", b"", key)
    assert other.flush(SECONDS_MAX) == 0
    rows = rows_of(key=keys, value=[b""] * len(keys))
    writer_for(topics.bootstrap_servers, rows, topic="by-the-sink").write(iter([rows]))
    expected = read_all(topics.bootstrap_servers, "by-librdkafka", 5)
    assert read_all(topics.bootstrap_servers, "by-the-sink", 5) == expected


def test_rows_without_a_key_spread_over_all_partitions(topics):
    topics.create("spread", 4)
    rows = rows_of(value=[b"x" * 1000] * 400)
    message = writer_for(topics.bootstrap_servers, rows, topic="spread").write(iter([rows]))
    assert message.batches == 4
    found = Counter(r.partition for r in read_all(topics.bootstrap_servers, "spread", 4))
    assert sum(found.values()) == 400
    assert min(found.values()) >= 80


def test_topics_of_the_column_are_written_and_made_on_demand(topics):
    topics.create("column-1", 2)
    rows = rows_of(value=[b"1", b"2", b"3"], topic=["column-1", "column-2", "column-1"])
    writer_for(topics.bootstrap_servers, rows).write(iter([rows]))
    first = read_all(topics.bootstrap_servers, "column-1", 2)
    assert sorted(record.value or b"" for record in first) == [b"1", b"3"]
    assert [r.value for r in read_all(topics.bootstrap_servers, "column-2", 1)] == [b"2"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_other_clients_read_what_is_compressed(topics, codec):
    topics.create(codec)
    rows = rows_of(value=[b"text %d" % number for number in range(1000)])
    options = {"topic": codec, "kafka__compression__type": codec}
    writer_for(topics.bootstrap_servers, rows, **options).write(iter([rows]))
    found = [record.value for record in read_all(topics.bootstrap_servers, codec, 1)]
    assert found == rows.column("value").to_pylist()
    (fetched,) = topics.client.run(fetch, {TopicPartition(codec, 0): 0}).values()
    assert {batch.codec for batch in fetched.batches()} != {0}


@pytest.mark.parametrize("acks", ["0", "1"])
def test_fewer_acknowledgements_need_no_producer_id(topics, acks):
    topics.create(f"acks-{acks}")
    rows = rows_of(value=[b"1", b"2"])
    options = {"topic": f"acks-{acks}", "kafka__acks": acks}
    writer_for(topics.bootstrap_servers, rows, **options).write(iter([rows]))
    # With acks=0 nobody says when it has arrived.
    deadline = time.monotonic() + SECONDS_MAX
    while len(read_all(topics.bootstrap_servers, f"acks-{acks}", 1)) < 2:
        assert time.monotonic() < deadline
    (fetched,) = topics.client.run(fetch, {TopicPartition(f"acks-{acks}", 0): 0}).values()
    assert not any(batch.has_producer_id for batch in fetched.batches())


def test_a_topic_that_takes_small_batches_only_gets_small_ones(topics):
    topics.create("small", 1, max_message_bytes="3000")
    rows = rows_of(value=[b"x" * 100] * 500)
    message = writer_for(topics.bootstrap_servers, rows, topic="small").write(iter([rows] * 20))
    assert len(read_all(topics.bootstrap_servers, "small", 1)) == message.rows == 10_000


def test_partitions_added_meanwhile_are_found(topics):
    topics.create("grown", 1)
    rows = rows_of(value=[b"1"], partition=[0])
    writer = writer_for(topics.bootstrap_servers, rows, topic="grown")
    writer.write(iter([rows]))
    topics.extend("grown", 3)
    writer.write(iter([rows_of(value=[b"2"], partition=[2])]))
    found = [(r.partition, r.value) for r in read_all(topics.bootstrap_servers, "grown", 3)]
    assert found == [(0, b"1"), (2, b"2")]


def test_a_worker_goes_on_with_its_producer_and_a_failed_task_ends_it(topics):
    topics.create("reused")
    rows = rows_of(value=[b"1"], partition=[0])
    bad = rows_of(value=[b"1"], partition=[9])
    writer = writer_for(topics.bootstrap_servers, rows, topic="reused")
    writer.write(iter([rows]))
    writer.write(iter([rows]))
    with pytest.raises(NoSuchPartition, match="has partition 9, but topic reused has partition 0"):
        writer.write(iter([rows, bad]))
    writer.write(iter([rows]))
    (fetched,) = topics.client.run(fetch, {TopicPartition("reused", 0): 0}).values()
    producers = [(b.producer_id, b.base_sequence) for b in fetched.batches()]
    assert producers[0][0] == producers[1][0] != producers[-1][0]
    assert [sequence for _, sequence in producers[:2]] == [0, 1]
    assert producers[-1][1] == 0


def test_a_task_without_rows_asks_nobody():
    rows = rows_of(value=[])
    writer = writer_for(str(refused_address()), rows, topic="none")
    assert writer.write(iter([])) == writer.write(iter([rows])) == WrittenRows(0, 0, 0)


def test_rows_that_cannot_be_written_are_named(topics):
    topics.create("refusing", 1, max_message_bytes="2000")
    servers = topics.bootstrap_servers
    big = rows_of(value=[b"x" * 3000])
    options = {"topic": "refusing", "kafka__max__request__size": "2500"}
    with pytest.raises(RecordTooLarge, match=r"refusing-0 takes 30\d\d bytes.*which is 2500"):
        writer_for(servers, big, **options).write(iter([big]))
    with pytest.raises(BrokerError, match="refusing-0: the batch has 3070 bytes, at most 2000"):
        writer_for(servers, big, topic="refusing").write(iter([big]))
    nowhere = rows_of(value=[b"1"], topic=[None])
    with pytest.raises(UnwritableRow, match="null topic present in the data"):
        writer_for(servers, nowhere).write(iter([nowhere]))
    with pytest.raises(BrokerError, match="topic a b"):
        writer_for(servers, big, topic="a b").write(iter([big]))


def test_nobody_to_write_to_is_an_error_in_time():
    rows = rows_of(value=[b"1"])
    options = {"topic": "t", "kafka__max__block__ms": "300"}
    with pytest.raises(TimedOut, match="connection refused"):
        writer_for(str(refused_address()), rows, **options).write(iter([rows]))


def test_a_producer_is_not_inherited_by_a_fork(topics, monkeypatch):
    topics.create("forked")
    rows = rows_of(value=[b"1"])
    writer = writer_for(topics.bootstrap_servers, rows, topic="forked")
    writer.write(iter([rows]))
    kept = sink_task._kept.take(writer.options)
    sink_task._kept.put(writer.options, kept)
    monkeypatch.setattr(sink_task.os, "getpid", lambda: -1)
    assert sink_task._kept.take(writer.options) is not kept


class Clock:
    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


def sizes(batches: list[pa.RecordBatch], full: int, linger_ms: int, step_ms: int) -> list[int]:
    clock = Clock()

    def arriving():
        for batch in batches:
            clock.ms += step_ms
            yield batch

    return [len(b) for b in gathered(arriving(), lambda: full, linger_ms, clock)]


def test_small_arrow_batches_are_gathered_until_they_fill_batches_or_lingered():
    rows = rows_of(value=[b"x" * 96] * 10)
    assert rows.nbytes == 1000
    assert sizes([rows] * 5, 3000, 1000, 1) == [30, 20]
    assert sizes([rows] * 3, 0, 1000, 1) == [10, 10, 10]
    assert sizes([rows] * 4, 1 << 20, 10, 6) == [30, 10]
    assert sizes([rows] * 2, 1 << 20, 0, 0) == [10, 10]
    assert sizes([], 0, 0, 0) == []
