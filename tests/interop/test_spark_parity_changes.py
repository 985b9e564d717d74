"""What happens to topics between two runs of a query: records are lost, a topic is made anew or
gets partitions. Spark's own Kafka connector and ours fail for the same reason, or go on alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.interop.spark_topics import RECORDS, fill
from tests.interop.suite import eventually
from tests.interop.test_spark_parity import FORMATS, offsets, spark, stream, streamed
from tests.interop.tidelog_node import TidelogNode

__all__ = ["spark"]  # a fixture

pytestmark = pytest.mark.interop

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"endingOffsets": "latest"}, "ending ?offsets? (is )?not valid in streaming queries"),
    ({"endingOffsetsByTimestamp": "{}"}, r"ending ?\w+ (is )?not valid in streaming queries"),
    (
        {"minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 8},
        r"min\w+ ?\(9\) is higher than (the )?maxOffsetsPerTrigger ?\(8\)",
    ),
    ({"startingOffsets": "newest"}, "'?startingOffsets'? is 'newest'|Expected e.g."),
    (
        {"startingOffsets": '{"refusing": {"1": 0}}'},
        r"use -1 for latest, -2 for earliest.*Specified: \S*refusing-1.*assigned: \S*refusing-0",
    ),
    (
        {"startingTimestamp": 10**13},
        "No offset matched from request of .*partition refusing-0 and timestamp 10000000000000",
    ),
]


class Topic:
    """A topic and what happens to it."""

    def __init__(self, node: TidelogNode, name: str) -> None:
        self.name = name
        self.written = 0
        self._servers = node.bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        self.create()

    def create(self) -> None:
        self._admin.create_topics([NewTopic(self.name, 1, 1)])[self.name].result()
        self.written = 0

    def fill(self, partition: int = 0) -> None:
        fill(self._servers, self.name, partition, "lz4", self.written)
        self.written += RECORDS

    def cut(self, offset: int) -> None:
        place = TopicPartition(self.name, 0, offset)
        self._admin.delete_records([place])[place].result()

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result()
        eventually(lambda: self.name not in self._admin.list_topics(timeout=10).topics)

    def grow(self, count: int) -> None:
        self._admin.create_partitions([NewPartitions(self.name, count)])[self.name].result()


@pytest.fixture(scope="module")
def node() -> Iterator[TidelogNode]:
    with TidelogNode() as running:
        yield running


@pytest.fixture
def run(spark: Any, node: TidelogNode, tmp_path: Path) -> Any:
    """Runs the query once, by each connector with a checkpoint of its own."""

    def run_both(topic: str, **more: Any) -> None:
        given = {"subscribe": topic, "startingOffsets": "earliest", **more}
        for name in FORMATS:
            stream(spark, node, name, tmp_path / name, **given)
        expected, found = (offsets(tmp_path / name) for name in FORMATS)
        assert found == expected
        assert streamed(spark, tmp_path / "tidelog") == streamed(spark, tmp_path / "kafka")

    return run_both


def fail(spark: Any, node: TidelogNode, folder: Path, reason: str, **options: Any) -> None:
    given = {"startingOffsets": "earliest", **options}
    for name in FORMATS:
        with pytest.raises(Exception, match=f"(?is){reason}"):
            stream(spark, node, name, folder / name, **given)


def read(spark: Any, folder: Path) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in streamed(spark, folder / "tidelog")]


@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=str)
def test_the_same_streams_are_refused_for_the_same_reason(spark, node, tmp_path, options, reason):
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    if "refusing" not in admin.list_topics(timeout=10).topics:
        Topic(node, "refusing").fill()
    fail(spark, node, tmp_path, reason, subscribe="refusing", **options)


def test_records_that_retention_took_fail_both_or_are_left_out_by_both(spark, node, tmp_path, run):
    topic = Topic(node, "lossy")
    topic.fill()
    run(topic.name)
    topic.fill()
    topic.cut(450)
    fail(spark, node, tmp_path, r"Could not read records in offset \[300, 600\)", subscribe="lossy")
    run(topic.name, failOnDataLoss="false")
    assert read(spark, tmp_path) == [(0, n) for n in (*range(300), *range(450, 600))]


def test_a_shorter_topic_of_the_same_name_fails_both_and_neither_rewinds(
    spark, node, tmp_path, run
):
    topic = Topic(node, "anew")
    topic.fill()
    topic.fill()
    run(topic.name)
    topic.delete()
    topic.create()
    topic.fill()
    fail(spark, node, tmp_path, "anew-0 offset was changed from 600 to 300", subscribe="anew")
    run(topic.name, failOnDataLoss="false")
    topic.fill()
    run(topic.name, failOnDataLoss="false")
    assert read(spark, tmp_path) == sorted((0, n) for n in (*range(600), *range(300, 600)))


def test_a_topic_that_is_gone_fails_both(spark, node, tmp_path):
    topics = [Topic(node, name) for name in ("gone-a", "gone-b")]
    given = {"subscribePattern": "^gone-", "startingOffsets": "earliest"}
    for topic in topics:
        topic.fill()
    for name in FORMATS:
        stream(spark, node, name, tmp_path / name, **given)
    topics[1].delete()
    fail(spark, node, tmp_path, "gone-b-0.* have been deleted", **given)


def test_new_partitions_are_read_by_both_from_their_beginning(spark, tmp_path, node, run):
    topic = Topic(node, "grown")
    topic.fill()
    run(topic.name)
    topic.grow(3)
    topic.fill(2)
    run(topic.name, maxOffsetsPerTrigger=200)
    assert len(read(spark, tmp_path)) == 600
    assert offsets(tmp_path / "tidelog")[-1] == {"grown": {"0": 300, "1": 0, "2": 300}}
