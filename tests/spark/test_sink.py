"""The sink inside Spark, batch and streaming; what it wrote is read by librdkafka."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.unit.spark.written import Found, read_all

QUERY_SECONDS_MAX = 120
COLUMNS = """key string, value binary, headers array<struct<key: string, value: binary>>,
    partition int, somebody string"""


def options(topics, **more):
    servers = {"kafka.bootstrap.servers": topics.bootstrap_servers}
    return servers | {name.replace("__", "."): str(value) for name, value in more.items()}


def write(frame, topics, mode="append", **more):
    frame.write.format("tidelog").options(**options(topics, **more)).mode(mode).save()


def run(query):
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    assert query.exception() is None
    return query


def stream(frame, topics, checkpoint, *, mode="append", **more):
    """Write what is there now, as one query or the next run of one."""
    writer = frame.writeStream.format("tidelog").outputMode(mode).trigger(availableNow=True)
    return run(writer.options(**options(topics, checkpointLocation=checkpoint, **more)).start())


def read_stream(spark, topics, subscribe):
    given = options(topics, subscribe=subscribe, startingOffsets="earliest")
    return spark.readStream.format("tidelog").options(**given).load()


def values(topics, topic, partitions=1):
    return [record.value for record in read_all(topics.bootstrap_servers, topic, partitions)]


def test_every_column_is_written_and_others_are_left_out(spark, topics, name):
    topics.create(name, 3)
    rows = [
        ("a", b"1", [("h", b"x"), ("i", None)], 0, "x"),
        (None, None, None, 1, "y"),
        ("ä", b"", [], 2, None),
    ]
    write(spark.createDataFrame(rows, COLUMNS), topics, topic=name)
    assert read_all(topics.bootstrap_servers, name, 3) == [
        Found(0, b"a", b"1", (("h", b"x"), ("i", None))),
        Found(1, None, None),
        Found(2, "ä".encode(), b""),
    ]


def test_what_the_source_reads_the_sink_writes(spark, topics, name):
    for topic in (name, f"{name}-copy"):
        topics.create(topic, 2)
    topics.fill(name, range(50), 0)
    topics.fill(name, range(30), 1)
    given = options(topics, subscribe=name, includeHeaders=True)
    write(spark.read.format("tidelog").options(**given).load(), topics, topic=f"{name}-copy")
    expected = read_all(topics.bootstrap_servers, name, 2)
    assert read_all(topics.bootstrap_servers, f"{name}-copy", 2) == expected


def test_each_row_may_name_its_topic_and_the_option_stands_over_it(spark, topics, name):
    for topic in ("1", "2", "3"):
        topics.create(name + topic)
    frame = spark.createDataFrame(
        [(f"{name}1", "a"), (f"{name}2", "b")], "topic string, value string"
    )
    write(frame, topics)
    write(frame, topics, topic=f"{name}3")
    assert (values(topics, f"{name}1"), values(topics, f"{name}2")) == ([b"a"], [b"b"])
    assert sorted(values(topics, f"{name}3")) == [b"a", b"b"]


def test_many_rows_of_many_tasks_arrive_once(spark, topics, name):
    topics.create(name, 6)
    frame = spark.range(0, 200_000, 1, 4).select(
        F.col("id").cast("string").alias("key"), F.col("id").cast("string").alias("value")
    )
    write(frame, topics, topic=name, kafka__compression__type="lz4")
    found = read_all(topics.bootstrap_servers, name, 6)
    assert sorted(int(record.value or b"") for record in found) == list(range(200_000))
    assert all(record.key == record.value for record in found)
    assert len({record.partition for record in found}) == 6


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ("'a' as key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("1 as value", {"topic": "t"}, "value attribute type must be string or binary, and is int"),
        ("'a' as value", {}, "topic option required when no 'topic' attribute is present"),
        ("'a' as value", {"topic": "t", "mode": "overwrite"}, "Save mode Overwrite not allowed"),
        (
            "'a' as value",
            {"topic": "t", "mode": "ignore"},
            "cannot be written in the .Ignore",
        ),
        ("'a' as value", {"topic": "t", "delivery": "exactly-once"}, "needs transactions"),
        ("'a' as value", {"topic": "t", "kafka__ack": "1"}, "does not know kafka.ack"),
    ],
)
def test_what_is_wrong_is_said_before_a_row_is_written(spark, topics, columns, more, message):
    with pytest.raises(PySparkException, match=message):
        write(spark.sql(f"select {columns}"), topics, **more)


def test_a_bad_row_fails_its_task_by_name(spark, topics, name):
    topics.create(name)
    with pytest.raises(PySparkException, match=r"has partition 7, but topic .* has partition 0"):
        write(spark.sql("select 'a' as value, 7 as partition"), topics, topic=name)
    with pytest.raises(PySparkException, match="null topic present in the data"):
        write(spark.sql("select 'a' as value, cast(null as string) as topic"), topics)


def test_a_stream_goes_on_where_its_last_run_ended(spark, topics, name, tmp_path):
    topics.create(name, 2)
    topics.create(f"{name}-out", 2)
    doubled = read_stream(spark, topics, name).select(
        "key", F.expr("cast(2 * cast(cast(value as string) as int) as string) as value")
    )
    for start in (0, 100):
        topics.fill(name, range(start, start + 50), 0)
        topics.fill(name, range(start + 50, start + 100), 1)
        stream(doubled, topics, tmp_path, topic=f"{name}-out")
    found = sorted(int(value) for value in values(topics, f"{name}-out", 2))
    assert found == list(range(0, 400, 2))


def test_a_batch_that_failed_is_written_again_by_the_next_run(spark, topics, name, tmp_path):
    topics.create(name, 2)
    topics.create(f"{name}-out", 2)
    topics.fill(name, range(50), 0)
    topics.fill(name, range(50, 100), 1)
    repaired = tmp_path / "repaired"

    @F.udf("binary", useArrow=False)
    def fail_at_the_last(value, flag=str(repaired)):
        if value == b"99" and not Path(flag).exists():
            raise RuntimeError("the last row is bad")
        return value

    rows = read_stream(spark, topics, name).select("key", fail_at_the_last("value").alias("value"))
    with pytest.raises(PySparkException, match="the last row is bad"):
        stream(rows, topics, tmp_path / "checkpoint", topic=f"{name}-out")
    repaired.touch()
    stream(rows, topics, tmp_path / "checkpoint", topic=f"{name}-out")
    found = Counter(int(value) for value in values(topics, f"{name}-out", 2))
    assert sorted(found) == list(range(100))


def counted(spark, topics, topic):
    return (
        read_stream(spark, topics, topic)
        .groupBy(F.expr("cast(cast(value as string) as int) % 3").alias("third"))
        .count()
        .selectExpr("cast(third as string) as key", "cast(count as string) as value")
    )


def counts_of(topics, topic):
    found = read_all(topics.bootstrap_servers, topic, 1)
    return sorted((record.key, int(record.value or b"")) for record in found)


def test_a_whole_aggregation_is_appended_by_every_batch(spark, topics, name, tmp_path):
    topics.create(name)
    topics.create(f"{name}-out")
    counts = counted(spark, topics, name)
    for _ in range(2):
        topics.fill(name, [0, 1, 3])
        stream(counts, topics, tmp_path, mode="complete", topic=f"{name}-out")
    assert counts_of(topics, f"{name}-out") == [(b"0", 2), (b"0", 4), (b"1", 1), (b"1", 2)]


def test_what_changed_of_an_aggregation_is_written_batch_by_batch(spark, topics, name, tmp_path):
    """Spark offers the output mode update to no sink in Python; foreachBatch has it."""
    topics.create(name)
    topics.create(f"{name}-out")
    counts = counted(spark, topics, name)
    for values_now in ([0, 1, 3], [1]):
        topics.fill(name, values_now)
        writer = counts.writeStream.outputMode("update").trigger(availableNow=True)
        writer = writer.foreachBatch(lambda frame, _: write(frame, topics, topic=f"{name}-out"))
        run(writer.option("checkpointLocation", str(tmp_path)).start())
    assert counts_of(topics, f"{name}-out") == [(b"0", 2), (b"1", 1), (b"1", 2)]


def test_a_stream_with_wrong_columns_says_so(spark, topics, name, tmp_path):
    topics.create(name)
    rows = read_stream(spark, topics, name).select("key")
    with pytest.raises(PySparkException, match="Required attribute 'value' not found"):
        stream(rows, topics, tmp_path, topic=name)
