"""The scan inside Spark: tasks by the size of the files, rows and schema of the source."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from tests.interop.tidelog_node import TidelogNode
from tests.unit.spark.topics import Topics
from tidelog.wire.compression import Compression


@pytest.fixture(scope="module")
def node():
    """With a topic of all codecs and an empty partition; it goes on running."""
    with TidelogNode() as running:
        topics = Topics(running.bootstrap_servers)
        topics.create("tides", 3, index_interval_bytes="256")
        for number in range(60):
            codec = Compression(number % 5)
            topics.fill("tides", range(number * 50, number * 50 + 50), number % 2, codec)
        topics.client.close()
        yield running


def scan(spark, node, **more):
    return spark.read.format("tidelog").options(**more).load(str(node.log_dir))


def test_the_files_of_a_running_node_hold_what_it_serves(spark, node):
    served = (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", node.bootstrap_servers)
        .option("subscribe", "tides")
        .option("includeHeaders", "true")
        .load()
    )
    files = scan(spark, node, subscribe="tides", includeHeaders="true", maxBytesPerPartition=2000)
    assert files.schema == served.schema
    assert files.rdd.getNumPartitions() > 3 * served.rdd.getNumPartitions()
    found, expected = (
        {tuple(row) for row in frame.drop("headers").collect()} for frame in (files, served)
    )
    assert len(expected) == 3000
    assert found == expected
    assert scan(spark, node, columns="partition").count() == 3000
    window = {"startingOffsets": '{"tides": {"0": 100, "1": -2, "2": -2}}'}
    rows = scan(spark, node, subscribe="tides", **window).filter("partition = 0")
    assert rows.agg({"offset": "min"}).collect()[0][0] == 100


def test_what_is_wrong_is_said(spark, node):
    with pytest.raises(PySparkException, match="has no moon; its topics are tides"):
        scan(spark, node, subscribe="moon").count()
    with pytest.raises(PySparkException, match="has no option 'useindices'"):
        scan(spark, node, useIndices="no").count()
