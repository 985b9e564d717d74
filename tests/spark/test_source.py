"""The source inside Spark: found by its name, read in batches and streams, and its lag."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from tests.unit.spark.topics import START_MS
from tidelog.client import TopicPartition
from tidelog.client.produce import produce
from tidelog.spark.lag import LagListener, lag_of
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

QUERY_SECONDS_MAX = 120
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def options(topics, **more):
    servers = {"kafka.bootstrap.servers": topics.bootstrap_servers}
    return servers | {name: str(value) for name, value in more.items()}


def read(spark, topics, **more):
    return spark.read.format("tidelog").options(**options(topics, **more)).load()


def read_stream(spark, topics, **more):
    return spark.readStream.format("tidelog").options(**options(topics, **more)).load()


def run_to_the_end(frame, folder: Path):
    """An AvailableNow query into Parquet."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    return query


def checkpoint_offsets(folder: Path) -> list[dict[str, dict[str, int]]]:
    """What Spark wrote of each micro-batch's end."""
    logs = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in logs]


def test_an_installed_source_is_found_and_has_the_columns_of_sparks(spark, topics, name):
    topics.create(name)
    builder = BatchBuilder()
    headers = ((b"trace", b"1"), (b"empty", None))
    builder.append(b"key", b"value", timestamp=START_MS, headers=headers)
    builder.append(None, None, timestamp=START_MS + 1)
    batch = builder.build(compression=Compression.LZ4)
    topics.client.run(produce, {TopicPartition(name, 0): batch})
    frame = read(spark, topics, subscribe=name, includeHeaders="true")
    assert frame.schema == (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
        .add(
            "headers",
            ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
        )
    )
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
    assert [row.asDict(recursive=True) | {"timestamp": None} for row in rows] == [
        {
            "key": bytearray(b"key"),
            "value": bytearray(b"value"),
            "topic": name,
            "partition": 0,
            "offset": 0,
            "timestamp": None,
            "timestampType": 0,
            "headers": [
                {"key": "trace", "value": bytearray(b"1")},
                {"key": "empty", "value": None},
            ],
            "ms": START_MS,
        },
        {
            "key": None,
            "value": None,
            "topic": name,
            "partition": 0,
            "offset": 1,
            "timestamp": None,
            "timestampType": 0,
            "headers": None,
            "ms": START_MS + 1,
        },
    ]


def test_fewer_columns_and_more_tasks(spark, topics, name):
    topics.create(name, 3)
    for partition in range(2):
        topics.fill(name, range(500), partition, Compression.ZSTD)
    frame = read(spark, topics, subscribe=name, columns="offset", minPartitions=6)
    assert frame.columns == ["offset"]
    assert frame.rdd.getNumPartitions() == 6
    assert frame.selectExpr("count(*)", "sum(offset)").first() == (1000, 2 * 499 * 250)
    assert read(spark, topics, subscribe=name, startingOffsets="earliest", columns="topic").count()
    topics.create(f"{name}-empty")
    assert read(spark, topics, subscribe=f"{name}-empty").count() == 0


def test_wrong_options_reach_the_user(spark, topics, name):
    with pytest.raises(AnalysisException, match=r"no option 'subscribes' \(did you mean subscr"):
        read(spark, topics, subscribes=name).count()
    with pytest.raises(AnalysisException, match=r"does not know kafka.ssl.protocol; it knows"):
        read(spark, topics, subscribe=name, **{"kafka.ssl.protocol": "TLS"}).count()
    with pytest.raises(AnalysisException, match="there is no such topic or partition"):
        read(spark, topics, subscribe="no-such-topic").count()


def test_filters_are_pushed_down_if_both_sides_are_switched_on(spark, topics, name):
    topics.create(name, 3)
    for partition in range(3):
        topics.fill(name, range(100), partition)
    condition = (
        f"partition = 1 AND offset >= 90 AND timestamp >= timestamp_millis({START_MS + 95_000})"
    )
    plain = read(spark, topics, subscribe=name).where(condition)
    assert plain.rdd.getNumPartitions() == 3
    assert plain.count() == 5
    asked = read(spark, topics, subscribe=name, pushFilters="true")
    with pytest.raises(AnalysisException, match=PUSHDOWN):
        asked.where(condition).count()
    spark.conf.set(PUSHDOWN, "true")
    try:
        pushed = asked.where(condition)
        assert pushed.rdd.getNumPartitions() == 1
        assert pushed.count() == 5
        plan = pushed._jdf.queryExecution().executedPlan().toString()
        assert "partition" not in plan.split("Filter")[1].split("BatchScan")[0]
    finally:
        spark.conf.unset(PUSHDOWN)


def test_a_stream_goes_on_from_its_checkpoint(spark, topics, name, tmp_path):
    topics.create(name, 2)
    topics.fill(name, range(300), 0, Compression.SNAPPY)
    topics.fill(name, range(100), 1)
    lags = []
    listener = LagListener(lags.append)
    spark.streams.addListener(listener)
    try:
        limited = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 200}
        query = run_to_the_end(read_stream(spark, topics, **limited), tmp_path)
        assert checkpoint_offsets(tmp_path) == [
            {name: {"0": 150, "1": 50}},
            {name: {"0": 300, "1": 100}},
        ]
        first = lag_of(query.recentProgress[0])
        assert first.partitions == {TopicPartition(name, 0): 150, TopicPartition(name, 1): 50}
        assert first.metrics() == {
            "minOffsetsBehindLatest": "50",
            "maxOffsetsBehindLatest": "150",
            "avgOffsetsBehindLatest": "100.0",
        }
        topics.extend(name, 3)
        topics.fill(name, range(10), 2)
        topics.fill(name, range(300, 305), 0)
        # startingOffsets counts for a new query alone.
        query = run_to_the_end(read_stream(spark, topics, subscribe=name), tmp_path)
        assert checkpoint_offsets(tmp_path)[-1] == {name: {"0": 305, "1": 100, "2": 10}}
    finally:
        spark.streams.removeListener(listener)
    rows = spark.read.parquet(str(tmp_path / "rows"))
    assert rows.count() == rows.select("partition", "offset").distinct().count() == 415
    assert [lag.total for lag in lags] == [200, 0, 0]
    assert listener.latest[query.id].total == 0


def test_a_running_stream_finds_new_partitions_and_topics(spark, topics, name):
    topics.create(f"{name}-a")
    query = (
        read_stream(spark, topics, subscribePattern=f"^{name}-", startingOffsets="earliest")
        .writeStream.format("memory")
        .queryName(name)
        .start()
    )
    try:
        topics.fill(f"{name}-a", range(5))
        query.processAllAvailable()
        topics.extend(f"{name}-a", 2)
        topics.create(f"{name}-b")
        topics.fill(f"{name}-a", range(7), 1)
        topics.fill(f"{name}-b", range(3))
        query.processAllAvailable()
        assert query.exception() is None
        assert spark.table(name).groupBy("topic").count().sort("topic").collect() == [
            (f"{name}-a", 12),
            (f"{name}-b", 3),
        ]
    finally:
        query.stop()


def test_a_lost_range_fails_a_stream_or_is_skipped(spark, topics, name, tmp_path):
    topics.create(name)
    topics.fill(name, range(10))
    options = {"subscribe": name, "startingOffsets": f'{{"{name}": {{"0": 0}}}}'}
    topics.cut(name, 4)
    lenient = read_stream(spark, topics, failOnDataLoss="false", **options)
    run_to_the_end(lenient, tmp_path / "lenient")
    rows = spark.read.parquet(str(tmp_path / "lenient" / "rows"))
    assert sorted(row.offset for row in rows.collect()) == list(range(4, 10))
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"):
        run_to_the_end(read_stream(spark, topics, **options), tmp_path / "strict")
