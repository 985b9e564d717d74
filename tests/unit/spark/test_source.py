"""The source's readers against a real node, called as Spark calls them."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType
from tests.unit.spark.topics import START_MS

from pyspark_tidelog import DefaultSource
from tidelog.client import BrokerError, TopicPartition
from tidelog.client.produce import produce
from tidelog.client.topics import list_topics
from tidelog.spark import offset_finder
from tidelog.spark.limited_stream import LimitedStreamReader
from tidelog.spark.offset_finder import OffsetFinder
from tidelog.spark.options import OptionError
from tidelog.spark.planner import DataLoss
from tidelog.spark.source_options import stream_options
from tidelog.spark.stream_reader import StreamPlanner, UnlimitedStreamReader
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

FEW = "partition,offset,value"
SCHEMA = (
    StructType()
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("value", BinaryType())
)
QUICK = {"fetchOffset.retryIntervalMs": "1", "kafkaConsumer.pollTimeoutMs": "1500"}


@pytest.fixture
def name(request):
    """A topic of the test's own."""
    return request.node.originalname.removeprefix("test_")[:80]


def source(topics, **options):
    """With options as Spark passes them; a dot in a name is written as two underlines."""
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    servers = {"kafka.bootstrap.servers": topics.bootstrap_servers, "columns": FEW}
    return DefaultSource(CaseInsensitiveDict({**servers, **QUICK, **given}))


def batch(topics, **options):
    return source(topics, **options).reader(schema=SCHEMA)


def stream(topics, **options):
    return source(topics, **options).streamReader(schema=SCHEMA)


def tasks(reader, *bounds):
    """What the tasks of a reader read, each a list of (partition, offset, value)."""
    planned = [pickle.loads(pickle.dumps(found)) for found in reader.partitions(*bounds)]
    travelled = pickle.loads(pickle.dumps(reader))
    return [
        [
            (row["partition"], row["offset"], int(row["value"]))
            for arrow in travelled.read(partition)
            for row in arrow.to_pylist()
        ]
        for partition in planned
    ]


def offsets(reader, *bounds):
    return [(p, offset) for task in tasks(reader, *bounds) for p, offset, _ in task]


def test_a_batch_reads_all_partitions_and_codecs(topics, name):
    topics.create(name, 6)
    for codec in Compression:
        topics.fill(name, range(10), codec, codec)
        topics.fill(name, range(10, 15), codec, codec)
    found = tasks(batch(topics, subscribe=name))
    assert found == [[(p, n, n) for n in range(15)] for p in range(5)], "the last one is empty"


def test_an_empty_batch_has_no_task(topics, name):
    topics.create(name)
    reader = batch(topics, subscribe=name)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == [], "what Spark then makes"


def test_offsets_bound_a_batch(topics, name):
    topics.create(name, 2)
    topics.fill(name, range(10), 0)
    topics.fill(name, range(10), 1)
    start, end = f'{{"{name}": {{"0": 4, "1": -2}}}}', f'{{"{name}": {{"0": 6, "1": -1}}}}'
    reader = batch(topics, subscribe=name, startingOffsets=start, endingOffsets=end)
    assert offsets(reader) == [(0, 4), (0, 5)] + [(1, n) for n in range(10)]
    assigned = f'{{"{name}": [1]}}'
    assert len(offsets(batch(topics, assign=assigned))) == 10
    with pytest.raises(OptionError, match=r"name all partitions .* Specified: .*-0, .*-1; assig"):
        batch(topics, assign=assigned, startingOffsets=start).partitions()


def test_timestamps_bound_a_batch(topics, name):
    topics.create(name, 2)
    topics.fill(name, range(10), 0)
    topics.fill(name, range(5), 1)
    since, until = START_MS + 3000, START_MS + 7000
    both = batch(topics, subscribe=name, startingTimestamp=since, endingTimestamp=until)
    assert offsets(both) == [(0, 3), (0, 4), (0, 5), (0, 6), (1, 3), (1, 4)]
    late = {"subscribe": name, "startingTimestamp": until}
    with pytest.raises(OptionError, match=f"No offset matched .*-1 and timestamp {until}; set st"):
        batch(topics, **late).partitions()
    lenient = batch(topics, **late, startingOffsetsByTimestampStrategy="latest")
    assert offsets(lenient) == [(0, 7), (0, 8), (0, 9)]
    each = f'{{"{name}": {{"0": {until}, "1": {since}}}}}'
    assert len(offsets(batch(topics, subscribe=name, startingOffsetsByTimestamp=each))) == 5


def test_a_pattern_finds_topics_but_no_internal_ones(topics, name):
    for suffix in ("-a", "-b"):
        topics.create(name + suffix)
        topics.fill(name + suffix, range(2))
    assert len(offsets(batch(topics, subscribePattern=f"{name[5:]}-[ab]$"))) == 4
    found = batch(topics, subscribePattern="consumer_offsets|" + name + "-a").partitions()
    assert len(found) == 1


def test_an_internal_topic_is_not_read(topics, name):
    internal = "__consumer_offsets"
    if internal not in topics.client.run(list_topics):
        topics.create(internal)
    with pytest.raises(OptionError, match=f"{internal}: the brokers keep .* scan its files"):
        batch(topics, subscribe=internal).partitions()
    with pytest.raises(OptionError, match=internal):
        batch(topics, assign=f'{{"{internal}": [0]}}').partitions()
    assert batch(topics, subscribePattern="consumer_off|no-such").partitions() == []


def test_a_topic_that_is_not_there_is_named(topics, name):
    topics.create(name)
    for options in ({"subscribe": f"{name},no-such"}, {"assign": '{"no-such": [0]}'}):
        with pytest.raises(BrokerError, match=r"no-such.*: there is no such topic or partition"):
            batch(topics, **options).partitions()
    with pytest.raises(BrokerError, match=f"{name}-7: there is no such"):
        batch(topics, assign=f'{{"{name}": [0, 7]}}').partitions()


def test_ranges_are_split(topics, name):
    topics.create(name)
    topics.fill(name, range(10))
    found = tasks(batch(topics, subscribe=name, minPartitions=3))
    assert [len(task) for task in found] == [3, 3, 4]
    found = tasks(batch(topics, subscribe=name, maxRecordsPerPartition=4))
    assert [offset for task in found for _, offset, _ in task] == list(range(10))
    assert max(map(len, found)) <= 4


def test_lost_records_fail_a_batch_or_are_left_out(topics, name):
    topics.create(name)
    topics.fill(name, range(10))
    start = f'{{"{name}": {{"0": 2}}}}'
    options = {"subscribe": name, "startingOffsets": start}
    topics.cut(name, 6)
    words = r"\[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE\].*\[2, 10\)"
    with pytest.raises(DataLoss, match=words):
        tasks(batch(topics, **options))
    assert offsets(batch(topics, **options, failOnDataLoss="false")) == [
        (0, n) for n in range(6, 10)
    ]


def test_records_lost_after_the_plan_are_left_out_and_nothing_comes_twice(topics, name):
    topics.create(name)
    for n in range(0, 100, 10):
        topics.fill(name, range(n, n + 10))
    small = {"kafka__max__partition__fetch__bytes": 1, "failOnDataLoss": "false"}
    reader = batch(topics, subscribe=name, **small)
    (task,) = reader.partitions()
    rows = reader.read(task)
    topics.cut(name, 50)
    found = [row["offset"] for arrow in rows for row in arrow.to_pylist()]
    assert found == list(range(50, 100))
    topics.delete(name)
    soon = {"assign": f'{{"{name}": [0]}}', "kafkaConsumer__pollTimeoutMs": 100}
    lenient = batch(topics, **soon, failOnDataLoss="false")
    assert list(lenient.read(task)) == [], "all of it is gone"
    with pytest.raises(DataLoss, match="no such topic"):
        list(batch(topics, **soon).read(task))


def test_a_start_beyond_the_end_is_a_loss(topics, name):
    topics.create(name)
    topics.fill(name, range(5))
    options = {"subscribe": name, "startingOffsets": f'{{"{name}": {{"0": 9}}}}'}
    with pytest.raises(DataLoss, match=r"PARTITION_OFFSET_CHANGED.* changed from 9 to 5"):
        batch(topics, **options).partitions()
    assert batch(topics, **options, failOnDataLoss="false").partitions() == []


def test_a_topic_deleted_while_a_batch_is_planned_is_a_loss(topics, name, monkeypatch, caplog):
    find = OffsetFinder.find

    def find_and_delete(self, position, which):
        found = find(self, position, which)
        if which == "starting":
            topics.delete(f"{name}-b")
            topics.create(f"{name}-c")
        return found

    topics.create(f"{name}-a")
    topics.fill(f"{name}-a", range(3))
    monkeypatch.setattr(OffsetFinder, "find", find_and_delete)
    options = {"subscribePattern": f"^{name}-", "columns": FEW}
    topics.create(f"{name}-b")
    with pytest.raises(DataLoss, match=f"Partitions {name}-b-0 have been deleted"):
        batch(topics, **options).partitions()
    topics.delete(f"{name}-c")
    topics.create(f"{name}-b")
    assert offsets(batch(topics, **options, failOnDataLoss="false")) == [(0, 0), (0, 1), (0, 2)]
    assert caplog.messages == [f"Partitions {name}-b-0 have been deleted."]


def test_a_range_that_the_log_no_longer_reaches_is_lost_in_time(topics, name):
    """A topic that was created anew is shorter than the plan."""
    topics.create(name)
    topics.fill(name, range(10))
    options = {"subscribe": name, "kafkaConsumer__pollTimeoutMs": 300}
    (task,) = batch(topics, **options).partitions()
    topics.delete(name)
    topics.create(name)
    topics.fill(name, range(4))
    strict = batch(topics, **options)
    with pytest.raises(DataLoss, match=r"\[4, 10\).*no record at offset 4 within 300 ms"):
        list(strict.read(task))
    lenient = batch(topics, **options, failOnDataLoss="false")
    assert sum(arrow.num_rows for arrow in lenient.read(task)) == 4


def test_filters_narrow_what_is_read(topics, name):
    topics.create(name, 3)
    for partition in range(3):
        topics.fill(name, range(20), partition)
    since = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(seconds=5)

    def planned(*filters):
        reader = batch(topics, subscribe=name, pushFilters="true")
        kept = list(reader.pushFilters(list(filters)))
        spans = [tuple(w)[1:] for found in reader.partitions() for w in found.wanted]
        return spans, kept, reader

    spans, kept, reader = planned(
        In(("partition",), (0, 2)),
        LessThan(("partition",), 2),
        GreaterThan(("offset",), 3),
        LessThanOrEqual(("offset",), 11),
        IsNotNull(("offset",)),
        EqualTo(("topic",), name),
    )
    assert (spans, kept) == ([(4, 12)], [])
    assert offsets(reader) == [(0, n) for n in range(4, 12)]
    time_filter = GreaterThanOrEqual(("timestamp",), since)
    others = [time_filter, StringContains(("topic",), "x"), IsNotNull(("key",))]
    spans, kept, _ = planned(*others, LessThan(("offset",), 9))
    assert (spans, kept) == ([(5, 9)] * 3, others), "Spark applies these itself"
    assert planned(EqualTo(("topic",), "another"))[0] == []
    assert planned(EqualTo(("offset",), 7))[0] == [(7, 8)] * 3
    future = GreaterThan(("timestamp",), since + timedelta(days=1))
    assert planned(future)[0] == []
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 998000, tzinfo=UTC)  # -2 ms, "earliest"
    for moment in (before_1970, before_1970 + timedelta(milliseconds=1), datetime(1960, 1, 1)):
        assert planned(GreaterThan(("timestamp",), moment))[0] == [(0, 20)] * 3
        assert planned(time_filter, GreaterThan(("timestamp",), moment))[0] == [(5, 20)] * 3
    plain = batch(topics, subscribe=name)
    assert type(plain).pushFilters is not type(reader).pushFilters


def test_a_schema_of_the_users_own_is_refused(topics, name):
    other = StructType().add("value", StringType())
    with pytest.raises(OptionError, match="has a fixed schema and cannot be set"):
        source(topics, subscribe=name).reader(schema=other)


def run(reader, start, limit=None):
    """One micro-batch: its end and its rows."""
    end = reader.latestOffset(start, limit or reader.getDefaultReadLimit())
    return end, offsets(reader, start, end)


def test_a_stream_goes_on_from_where_it_was(topics, name):
    topics.create(name, 2)
    topics.fill(name, range(3))
    reader = stream(topics, subscribe=name)
    start = reader.initialOffset()
    assert start == {name: {"0": 3, "1": 0}}, "a new stream starts at the latest offsets"
    assert reader.getDefaultReadLimit() == ReadAllAvailable()
    topics.fill(name, range(3, 5))
    assert reader.initialOffset() == start, "Spark asks again, and is told the same"
    assert run(reader, start) == (start, []), "the first micro-batch makes Spark remember it"
    end, rows = run(reader, start)
    assert (end, rows) == ({name: {"0": 5, "1": 0}}, [(0, 3), (0, 4)])
    assert reader.reportLatestOffset() == end
    assert run(reader, end) == (end, [])
    reader.commit(end)


def test_small_partitions_of_a_stream_share_a_task_unless_tasks_are_asked_for(topics, name):
    topics.create(name, 4)
    for partition, count in enumerate((5, 7, 1200, 3)):
        topics.fill(name, range(count), partition)
    given = {"subscribe": name, "startingOffsets": "earliest"}
    for more, expected in (({}, [1212, 3]), ({"minPartitions": 4}, [5, 7, 1200, 3])):
        reader = stream(topics, **given, **more)
        start = reader.initialOffset()
        found = tasks(reader, start, reader.latestOffset(start, ReadAllAvailable()))
        assert [len(task) for task in found] == expected
        assert len({row[:2] for task in found for row in task}) == 1215


@pytest.mark.parametrize("starting", ["latest", "mixed", "timestamp"])
def test_a_stream_that_died_in_its_first_batch_begins_where_it_had_begun(topics, name, starting):
    topic = f"{name[:60]}-{starting}"
    topics.create(topic, 2)
    topics.fill(topic, range(3))
    options = {
        "latest": {},
        "mixed": {"startingOffsets": f'{{"{topic}": {{"0": -1, "1": 0}}}}'},
        "timestamp": {
            "startingTimestamp": START_MS + 999_000,
            "startingOffsetsByTimestampStrategy": "latest",
        },
    }[starting]
    died = stream(topics, subscribe=topic, **options)
    start = died.initialOffset()
    topics.fill(topic, range(3, 5))
    first_end = died.latestOffset(start, ReadAllAvailable())
    topics.fill(topic, range(5, 6))
    resumed = stream(topics, subscribe=topic, **options)
    later = resumed.initialOffset()
    assert later[topic]["0"] == 6
    assert resumed.partitions(later, first_end) == [], "Spark repeats what was not committed"
    assert run(resumed, first_end)[1] == [(0, 3), (0, 4), (0, 5)]


def test_a_first_batch_reads_what_does_not_start_at_the_latest_offset(topics, name):
    """As Spark's Kafka source does; repeated, it reads the same again, and nothing is lost."""
    topics.create(name, 3)
    for partition in range(3):
        topics.fill(name, range(4), partition)
    given = {"subscribe": name, "startingOffsets": f'{{"{name}": {{"0": -1, "1": 1, "2": -2}}}}'}
    died = stream(topics, **given, maxOffsetsPerTrigger=5)
    start = died.initialOffset()
    assert start == {name: {"0": 4, "1": 1, "2": 0}}
    topics.fill(name, range(4, 6))
    end, rows = run(died, start)
    assert end == {name: {"0": 4, "1": 3, "2": 2}}
    assert rows == [(1, 1), (1, 2), (2, 0), (2, 1)]
    resumed = stream(topics, **given)
    later = resumed.initialOffset()
    assert later == {name: {"0": 6, "1": 1, "2": 0}}
    assert offsets(resumed, later, end) == rows
    assert run(resumed, end)[1] == [(0, 4), (0, 5), (1, 3), (2, 2), (2, 3)]


def test_a_partition_that_appears_with_a_first_batch_waits_for_the_second(topics, name):
    topics.create(name)
    reader = stream(topics, subscribe=name)
    start = reader.initialOffset()
    topics.extend(name, 2)
    topics.fill(name, range(2), 1)
    assert run(reader, start) == (start, [])
    assert run(reader, start) == ({name: {"0": 0, "1": 2}}, [(1, 0), (1, 1)])


def test_a_stream_that_goes_on_is_not_asked_where_it_starts(topics, name):
    """Nor is a plan of its first micro-batch taken for one of a beginning."""
    topics.create(name)
    topics.fill(name, range(4))
    assert run(stream(topics, subscribe=name), {name: {"0": 1}})[1] == [(0, 1), (0, 2), (0, 3)]
    with pytest.raises(DataLoss, match="PARTITION_OFFSET_CHANGED"):
        stream(topics, subscribe=name).partitions({name: {"0": 3}}, {name: {"0": 2}})


def test_a_stream_finds_new_partitions_and_reads_them_from_the_start(topics, name):
    topics.create(name)
    reader = stream(topics, subscribe=name, startingOffsets="earliest")
    start = reader.initialOffset()
    topics.extend(name, 3)
    topics.fill(name, range(2), 2)
    end, rows = run(reader, start)
    assert (end, rows) == ({name: {"0": 0, "1": 0, "2": 2}}, [(2, 0), (2, 1)])


def test_a_new_partition_that_lacks_its_start_is_a_loss(topics, name):
    topics.create(name, 2)
    topics.fill(name, range(4), 1)
    topics.cut(name, 2, 1)
    reader = stream(topics, subscribe=name)
    bounds = {name: {"0": 0}}, {name: {"0": 0, "1": 4}}
    with pytest.raises(DataLoss, match="starts from 2 instead of 0"):
        reader.partitions(*bounds)
    lenient = stream(topics, subscribe=name, failOnDataLoss="false")
    assert offsets(lenient, *bounds) == [(1, 2), (1, 3)]


def test_a_deleted_topic_fails_a_stream_or_waits_for_its_return(topics, name):
    topics.create(name)
    topics.fill(name, range(4))
    options = {"subscribePattern": name, "startingOffsets": "earliest"}
    strict, lenient = stream(topics, **options), stream(topics, **options, failOnDataLoss="false")
    start = strict.initialOffset()
    end, _ = run(strict, start)
    assert run(lenient, lenient.initialOffset())[0] == end
    topics.delete(name)
    with pytest.raises(DataLoss, match=f"Partitions {name}-0 have been deleted"):
        run(strict, end)
    assert run(lenient, end) == (end, []), "where it was, lest it be read twice"
    topics.create(name)
    topics.fill(name, range(6))
    with pytest.raises(DataLoss, match="have been deleted and re-created"):
        run(strict, end)
    assert run(lenient, end) == ({name: {"0": 6}}, [(0, 4), (0, 5)]), "never rewinds"


def test_a_deleted_topic_is_looked_for_again_but_not_for_every_batch(topics, name, monkeypatch):
    """A broker may not know it for a moment; a query that goes on without it need not wait."""
    for topic in (name, f"{name}-kept"):
        topics.create(topic)
        topics.fill(topic, range(4))
    given = {"subscribePattern": f"^{name}", "startingOffsets": "earliest"}
    reader = stream(topics, **given, failOnDataLoss="false")
    end, _ = run(reader, reader.initialOffset())
    topics.delete(name)
    waits = []
    monkeypatch.setattr(offset_finder.time, "sleep", waits.append)
    assert run(reader, end) == (end, [])
    assert len(waits) == 2, "as fetchOffset.numRetries says"
    topics.fill(f"{name}-kept", range(4, 6))
    assert run(reader, end)[1] == [(0, 4), (0, 5)]
    assert len(waits) == 2


def test_a_shorter_topic_of_the_same_name_is_a_loss(topics, name):
    topics.create(name)
    topics.fill(name, range(2))
    options = {"subscribe": name}
    bounds = {name: {"0": 9}}, {name: {"0": 2}}
    with pytest.raises(DataLoss, match="PARTITION_OFFSET_CHANGED"):
        stream(topics, **options).partitions(*bounds)
    lenient = stream(topics, **options, failOnDataLoss="false")
    assert run(lenient, bounds[0]) == (bounds[1], [])


def test_a_trigger_reads_as_many_offsets_as_it_may(topics, name):
    topics.create(name, 2)
    topics.fill(name, range(90), 0)
    topics.fill(name, range(10), 1)
    reader = stream(topics, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert run(reader, start)[0] == {name: {"0": 18, "1": 2}}
    assert run(reader, start, ReadAllAvailable())[0] == {name: {"0": 90, "1": 10}}, "Trigger.Once"


def test_a_trigger_reads_about_as_many_bytes_as_it_may(topics, name):
    topics.create(name, 2)
    for n in range(0, 1000, 10):
        topics.fill(name, range(n, n + 10), 0)
    topics.fill(name, range(10), 1)
    reader = stream(topics, subscribe=name, startingOffsets="earliest", maxBytesPerTrigger=2000)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(2000)
    start, batches = reader.initialOffset(), 0
    size = 0
    while True:
        end, rows = run(reader, start)
        if not rows:
            break
        start, batches, size = end, batches + 1, size + len(rows)
    assert size == 1010
    assert 8 <= batches <= 16, "a record takes 16 bytes or so, with its share of a batch's header"


def test_bytes_are_limited_also_where_records_grow(topics, name):
    topics.create(name)
    topics.fill(name, range(1000))
    for _ in range(10):
        builder = BatchBuilder()
        builder.append(None, b"7" * 2000, timestamp=START_MS)
        topics.client.run(produce, {TopicPartition(name, 0): builder.build()})
    reader = stream(topics, subscribe=name, startingOffsets="earliest", maxBytesPerTrigger=6000)
    end, batches = reader.initialOffset(), []
    while not batches or batches[-1]:
        start, end = end, reader.latestOffset(end, reader.getDefaultReadLimit())
        batches.append(sum(len(str(value)) for t in tasks(reader, start, end) for _, _, value in t))
    assert max(batches) < 2 * 6000
    assert 6 < len(batches) < 25


def test_bytes_are_limited_also_where_records_were_lost(topics, name):
    """Retention is fastest where a query is slow, which is what its limit is for."""
    topics.create(name)
    for n in range(0, 1000, 10):
        topics.fill(name, range(n, n + 10))
    given = {"subscribe": name, "startingOffsets": "earliest", "maxBytesPerTrigger": 4000}
    strict, lenient = stream(topics, **given), stream(topics, **given, failOnDataLoss="false")
    start = strict.initialOffset()
    topics.cut(name, 500)
    with pytest.raises(DataLoss, match="COULD_NOT_READ_OFFSET_RANGE"):
        run(strict, start)
    end, found, batches = start, [], 0
    while end != {name: {"0": 1000}}:
        end, rows = run(lenient, end)
        found += rows
        batches += 1
    assert found == [(0, n) for n in range(500, 1000)]
    assert batches > 2


def test_both_limits_hold_at_once(topics, name):
    topics.create(name)
    topics.fill(name, range(100))
    tight = {"startingOffsets": "earliest", "maxBytesPerTrigger": 300}
    reader = stream(topics, subscribe=name, maxOffsetsPerTrigger=50, **tight)
    _, rows = run(reader, reader.initialOffset())
    assert 5 <= len(rows) < 40


def test_a_trigger_waits_for_enough_records_but_not_for_ever(topics, name):
    topics.create(name)
    options = {"minOffsetsPerTrigger": 10, "maxTriggerDelay": "5s"}
    reader = stream(topics, subscribe=name, startingOffsets="earliest", **options)
    now = 0
    reader._planner = StreamPlanner(reader.options, lambda: now)
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    topics.fill(name, range(3))
    end = reader.latestOffset(start, limit)
    assert end == {name: {"0": 3}}, "the first one does not wait"
    topics.fill(name, range(3, 6))
    now = 4999
    assert reader.latestOffset(end, limit) == end
    now = 5000
    assert reader.latestOffset(end, limit) == {name: {"0": 6}}
    topics.fill(name, range(6, 16))
    now = 5001
    assert reader.latestOffset({name: {"0": 6}}, limit) == {name: {"0": 16}}


def test_available_now_ends_where_the_log_ended(topics, name):
    topics.create(name)
    topics.fill(name, range(10))
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 4, "maxOffsetsPerTrigger": 4}
    reader = stream(topics, subscribe=name, **options)
    reader.prepareForTriggerAvailableNow()
    end, found = reader.initialOffset(), []
    for _ in range(4):
        end, rows = run(reader, end)
        topics.fill(name, range(10))
        found += rows
    assert found == [(0, n) for n in range(10)], "nor is the rest, less than 4, left unread"


@pytest.mark.parametrize(
    ("again", "words"), [(None, "LOST_TOPIC_PARTITIONS.*0 have been lost"), (3, "become shorter")]
)
@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger=5", "maxBytesPerTrigger=100"])
def test_available_now_sees_what_was_lost_since_it_began(topics, name, again, words, limit):
    option, _, most = limit.partition("=")
    topic = f"{name}-{again}-{option}"
    topics.create(topic)
    topics.fill(topic, range(10))
    given = {"subscribe": topic, "startingOffsets": "earliest", option: most}
    readers = [stream(topics, **given), stream(topics, **given, failOnDataLoss="false")]
    for reader in readers:
        reader.prepareForTriggerAvailableNow()
    ends = [run(reader, reader.initialOffset())[0] for reader in readers]
    assert ends[0] == ends[1]
    assert 3 < ends[0][topic]["0"] < 10
    topics.delete(topic)
    if again is not None:
        topics.create(topic)
        topics.fill(topic, range(again))
    strict, lenient = readers
    with pytest.raises(DataLoss, match=words):
        run(strict, ends[0])
    assert run(lenient, ends[1])[1] == []


def test_spark_without_limits_gets_a_reader_without_them(topics, name, monkeypatch):
    monkeypatch.setattr("pyspark.__version__", "4.1.1")
    with pytest.raises(OptionError, match=r"maxBytesPerTrigger needs Spark 4.2 .* this is 4.1.1"):
        stream(topics, subscribe=name, maxBytesPerTrigger=1)
    topics.create(name)
    reader = stream(topics, subscribe=name)
    assert not isinstance(reader, LimitedStreamReader)
    assert isinstance(reader, UnlimitedStreamReader)
    start = reader.initialOffset()
    topics.fill(name, range(2))
    assert reader.latestOffset() == start, "what makes Spark remember it"
    assert offsets(reader, start, reader.latestOffset()) == [(0, 0), (0, 1)]
    topics.extend(name, 2)
    old = f'{{"{name}": {{"0": 0}}}}'
    resumed = stream(topics, subscribe=name, startingOffsets=old)
    assert resumed.latestOffset() == {name: {"0": 2, "1": 0}}, "its start counts no more"


def test_the_set_of_partitions_may_be_believed_for_a_while(topics, name):
    topics.create(name)
    options = {"kafka.bootstrap.servers": topics.bootstrap_servers, "subscribe": name}
    cached = StreamPlanner(stream_options({**options, "partition.metadata.cache.ttl.ms": "600000"}))
    cached.start()
    topics.extend(name, 2)
    assert len(cached.finder.partitions()) == 1
    assert len(StreamPlanner(stream_options(options)).finder.partitions()) == 2
