"""What is promised of every supported version of Spark, and what of some; run by `make suites`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.interop.tidelog_node import TidelogNode
from tests.spark.conftest import name, spark, topics
from tests.suites.__main__ import EXPECTED
from tests.unit.spark.topics import Topics
from tidelog.cli.main import tidelog
from tidelog.client import TopicPartition
from tidelog.spark.lag import lag_of
from tidelog.wire.compression import Compression

__all__ = ["name", "spark", "topics"]  # fixtures

QUERY_SECONDS_MAX = 240
VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
HAS_LIMITS = VERSION >= (4, 2)
LIMITS = {
    "maxOffsetsPerTrigger": "100",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "1s",
    "maxBytesPerTrigger": "1000",
}


def servers(topics: Topics) -> dict[str, str]:
    return {"kafka.bootstrap.servers": topics.bootstrap_servers}


def read_stream(spark: Any, topics: Topics, topic: str, **more: str) -> Any:
    given = {**servers(topics), "subscribe": topic, "startingOffsets": "earliest", **more}
    return spark.readStream.format("tidelog").options(**given).load()


def run_to_the_end(frame: Any, kind: str, folder: Path, **more: str) -> Any:
    given = {"checkpointLocation": str(folder / "checkpoint"), **more}
    query = frame.writeStream.format(kind).options(**given).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    return query


def test_this_is_the_version_that_was_asked_for():
    assert pyspark.__version__ == os.environ[EXPECTED]


def test_a_batch(spark, topics, name):
    topics.create(name, 2)
    topics.fill(name, range(100), 0, Compression.ZSTD)
    topics.fill(name, range(50), 1)
    given = {**servers(topics), "subscribe": name}
    frame = spark.read.format("tidelog").options(**given, includeHeaders="true").load()
    assert len(frame.columns) == 8
    assert frame.selectExpr("count(*)", "sum(CAST(CAST(value AS STRING) AS INT))").first() == (
        150,
        4950 + 1225,
    )
    few = spark.read.format("tidelog").options(**given, columns="offset", minPartitions="4").load()
    assert (few.columns, few.rdd.getNumPartitions(), few.count()) == (["offset"], 4, 150)


@pytest.mark.skipif(HAS_LIMITS, reason="this version has limits")
@pytest.mark.parametrize("option", LIMITS)
def test_without_limits_they_are_refused_by_name(spark, topics, option, tmp_path):
    topics.create(option)
    frame = read_stream(spark, topics, option, **{option: LIMITS[option]})
    with pytest.raises(Exception, match=rf"{option} needs Spark 4\.2 or newer, and this is 4\.1\."):
        run_to_the_end(frame, "noop", tmp_path)


def test_a_stream_and_its_restart(spark, topics, name, tmp_path):
    topics.create(name, 2)
    topics.fill(name, range(300), 0, Compression.LZ4)
    topics.fill(name, range(100), 1)
    limits = {"maxOffsetsPerTrigger": "200"} if HAS_LIMITS else {}
    frame = read_stream(spark, topics, name, **limits)
    rows = str(tmp_path / "rows")
    query = run_to_the_end(frame, "parquet", tmp_path, path=rows)
    assert len(query.recentProgress) == (2 if HAS_LIMITS else 1)
    behind = {TopicPartition(name, 0): 150, TopicPartition(name, 1): 50}
    # Before it had limits, Spark did not ask a Python source for its latest offsets.
    assert lag_of(query.recentProgress[0]).partitions == (behind if HAS_LIMITS else {})
    topics.fill(name, range(300, 310), 0)
    run_to_the_end(frame, "parquet", tmp_path, path=rows)
    found = spark.read.parquet(rows)
    assert found.count() == found.select("partition", "offset").distinct().count() == 410


def test_a_new_stream_starts_at_the_latest_offsets(spark, topics, name):
    topics.create(name)
    topics.fill(name, range(5))
    query = (
        read_stream(spark, topics, name, startingOffsets="latest")
        .writeStream.format("memory")
        .queryName(name[:40])
        .start()
    )
    try:
        query.processAllAvailable()
        topics.fill(name, range(5, 8))
        query.processAllAvailable()
        assert sorted(row.offset for row in spark.table(name[:40]).collect()) == [5, 6, 7]
    finally:
        query.stop()


def test_the_sink(spark, topics, name, tmp_path):
    source, copy = f"{name}-a", f"{name}-b"
    topics.create(source, 2)
    topics.create(copy, 2)
    written = spark.range(500).selectExpr("CAST(id AS STRING) AS key", "'v' AS value")
    given = {**servers(topics), "topic": source}
    written.write.format("tidelog").options(**given).mode("append").save()
    frame = read_stream(spark, topics, source).select("key", "value", "partition")
    run_to_the_end(frame, "tidelog", tmp_path, **servers(topics), topic=copy)
    for topic in (source, copy):
        found = spark.read.format("tidelog").options(**servers(topics), subscribe=topic).load()
        keys = sorted(int(row.key) for row in found.collect())
        assert keys == list(range(500))


def test_a_scan(spark):
    with TidelogNode() as node:
        made = Topics(node.bootstrap_servers)
        made.create("tides", 2)
        made.fill("tides", range(200), 1, Compression.SNAPPY)
        frame = spark.read.format("tidelog").load(str(node.log_dir))
        assert frame.groupBy("partition").count().collect() == [(1, 200)]
        made.client.close()


def test_an_archive(topics, name, tmp_path):
    from click.testing import CliRunner

    topics.create(name)
    topics.fill(name, range(70))
    table = str(tmp_path / "table")
    asked = ["--bootstrap-server", topics.bootstrap_servers, "--topic", name]
    command = ["pipeline", "archive", "--to", table]
    made = CliRunner().invoke(tidelog, [*command, *asked, "--once"])
    assert made.exit_code == 0, made.output
    proof = CliRunner().invoke(tidelog, [*command, "--verify"])
    assert (proof.exit_code, "proven: no gap" in proof.output) == (0, True), proof.output
    assert pq.read_table(table).num_rows == 70
