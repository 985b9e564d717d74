"""Spark's own Kafka connector and ours on the same topics, of Apache Kafka and of Tidelog: equal
rows, schemas, micro-batches and checkpoints, and the same queries are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.apache import ApacheNode
from tests.interop.conftest import SERVERS
from tests.interop.process import NodeProcess
from tests.interop.spark_jars import connector_jars
from tests.interop.spark_topics import CUT_OFFSET, EAGER_CLEANER, TOPICS, fill, write_topics
from tests.interop.suite import TIMESTAMP_MS
from tests.spark.conftest import start_session
from tests.spark.jvm import cheap

pytestmark = pytest.mark.interop

FORMATS = ("kafka", "tidelog")
QUERY_SECONDS_MAX = 240
COMMITTED = {"kafka.isolation.level": "read_committed"}
QUICK = {"fetchOffset.retryIntervalMs": "10", "fetchOffset.numRetries": "1"}

Spark = Any
Frame = Any


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    session = start_session(spark_jars=",".join(map(str, connector_jars())), **cheap())
    yield session
    session.stop()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Apache Kafka left on its disk."""
    directory = tmp_path_factory.mktemp("written")
    with ApacheNode(directory, properties=EAGER_CLEANER) as node:
        write_topics(node.bootstrap_servers)
    return directory


@pytest.fixture(scope="module", params=sorted(SERVERS))
def node(
    request: pytest.FixtureRequest, written: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeProcess]:
    """A broker on a copy of it: both have byte for byte the same log."""
    directory = tmp_path_factory.mktemp(request.param) / "node"
    shutil.copytree(written / "data", directory / "data")
    # A cleaner would go on with what it began, between one read and the next.
    with SERVERS[request.param](directory, properties={"log.cleaner.enable": "false"}) as server:
        yield server


def read(spark: Spark, node: NodeProcess, name: str, **options: Any) -> Frame:
    given = {key.replace("__", "."): str(value) for key, value in options.items()}
    servers = {"kafka.bootstrap.servers": node.bootstrap_servers}
    return spark.read.format(name).options(**servers, **QUICK, **given).load()


def rows(frame: Frame) -> list[Any]:
    """In order; Spark would need another stage for that."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def same(spark: Spark, node: NodeProcess, **options: Any) -> list[Any]:
    """The rows that both read."""
    theirs, ours = (read(spark, node, name, **options) for name in FORMATS)
    assert ours.schema == theirs.schema
    expected, found = rows(theirs), rows(ours)
    assert found == expected
    return found


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_batches_are_the_same(spark, node, isolation):
    found = {
        topic: same(
            spark, node, subscribe=topic, includeHeaders="true", kafka__isolation__level=isolation
        )
        for topic in TOPICS
    }
    assert {row.partition for row in found["codecs"]} == set(range(5))
    assert {row.timestampType for row in found["appended"]} == {1}
    last = found["compacted"][-1].offset
    assert len(found["compacted"]) < last, "it has holes"
    assert found["cut"][0].offset == CUT_OFFSET
    aborted = 40 if isolation == "read_uncommitted" else 0
    assert len(found["transactions"]) == 40 + 4 + aborted
    assert found["empty"] == []


def test_a_scan_of_the_files_finds_what_is_served(spark, node, written):
    """Compacted, cut off at the front, with transactions that were aborted, of every codec."""
    for topic in TOPICS:
        served = rows(
            read(spark, node, "kafka", subscribe=topic, includeHeaders="true", **COMMITTED)
        )
        reader = spark.read.format("tidelog").options(subscribe=topic, includeHeaders="true")
        assert rows(reader.load(str(written / "data"))) == served
        assert served or topic == "empty"


OPTIONS: list[dict[str, Any]] = [
    {"subscribe": "codecs"},
    {"subscribe": "codecs,appended, cut"},
    {"subscribePattern": "c.*t|^app"},
    {"assign": '{"codecs": [0, 3], "cut": [0]}'},
    {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 150}}'},
    {"subscribe": "cut", "endingOffsets": '{"cut": {"0": 150}}'},
    {"subscribe": "compacted", "startingOffsets": '{"compacted": {"0": 3}}'},
    {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 10}}', "failOnDataLoss": "false"},
    {
        "subscribe": "appended",
        "startingOffsets": '{"appended": {"0": 7, "1": -2}}',
        "endingOffsets": '{"appended": {"0": -1, "1": 0}}',
    },
    {"subscribe": "cut", "startingTimestamp": TIMESTAMP_MS + 200_500},
    {"subscribe": "cut", "endingTimestamp": TIMESTAMP_MS + 200_500},
    {
        "assign": '{"codecs": [1, 2]}',
        "startingOffsetsByTimestamp": f'{{"codecs": {{"1": {TIMESTAMP_MS + 9_000}, "2": 0}}}}',
        "endingOffsetsByTimestamp": f'{{"codecs": {{"1": {10**15}, "2": {TIMESTAMP_MS}}}}}',
    },
    {
        "subscribe": "codecs",
        "startingTimestamp": TIMESTAMP_MS + 250_000,
        "startingOffsetsByTimestampStrategy": "latest",
    },
    {"subscribe": "codecs", "minPartitions": 13},
    {"subscribe": "codecs", "maxRecordsPerPartition": 70},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_options_mean_the_same(spark, node, options):
    assert same(spark, node, **options)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "One of the following options must be specified.*: subscribe, subscribePattern, assign"),
    (
        {"subscribe": "codecs", "assign": "{}"},
        "Only one of the following options can be specified.*: subscribe, subscribePattern, assign",
    ),
    ({"subscribe": "no-such-topic"}, "(does not host this|there is no such) topic.*partition"),
    ({"subscribe": " , "}, "No topics to subscribe to.*'?subscribe'? is ' , '"),
    ({"assign": "codecs"}, "'?assign'? is 'codecs'"),
    (
        {"subscribe": "codecs", "startingOffsets": "latest"},
        "starting ?offsets? can't be latest for batch queries",
    ),
    (
        {"subscribe": "codecs", "endingOffsets": "earliest"},
        "ending ?offsets? can't be earliest for batch queries",
    ),
    (
        {"subscribe": "codecs", "startingOffsets": '{"codecs": {"0": 1}}'},
        r"use -1 for latest, -2 for earliest.\s+Specified: \S*codecs-0\S*\s+Assigned: .*codecs-5",
    ),
    (
        {"subscribe": "codecs", "endingOffsets": '{"codecs": {"7": 1}}'},
        r"use -1 for latest, -2 for earliest.\s+Specified: \S*codecs-7\S*\s+Assigned: .*codecs-5",
    ),
    (
        {"subscribe": "cut", "startingOffsets": '{"cut": {"0": -1}}'},
        "startingOffsets for cut-0 can't be latest for batch queries",
    ),
    (
        {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 10}}'},
        r"failOnDataLoss to false.\s+Reason: Could not read records in offset \[10, 300\) "
        "for topic partition cut-0",
    ),
    (
        {
            "subscribe": "cut",
            "endingOffsets": '{"cut": {"0": 900}}',
            "kafkaConsumer__pollTimeoutMs": 1000,
        },
        r"failOnDataLoss to false.\s+Reason: Could not read records in offset \[300, 900\) "
        "for topic partition cut-0",
    ),
    (
        {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 900}}'},
        "(start offset 900 is greater than the resolved end offset|changed from 900 to) 300",
    ),
    (
        {
            "subscribe": "cut",
            "startingOffsets": '{"cut": {"0": 250}}',
            "endingOffsets": '{"cut": {"0": 200}}',
        },
        "The specified start offset 250 is greater than the end offset 200 for .*cut",
    ),
    (
        {"subscribe": "empty", "startingTimestamp": 0},
        "No offset matched from request of .*partition empty-0 and timestamp 0",
    ),
    (
        {"subscribe": "cut", "startingTimestamp": "now"},
        "(single long value, got now|startingTimestamp is 'now': want one number)",
    ),
    ({"subscribe": "codecs", "minPartitions": 0}, "minPartitions (must be positive|is '0')"),
    ({"subscribe": "codecs", "failOnDataLoss": "perhaps"}, "[\"']perhaps[\"']"),
    (
        {"subscribe": "codecs", "kafka__auto__offset__reset": "earliest"},
        "Kafka option 'auto.offset.reset' is not supported",
    ),
    (
        {"subscribe": "codecs", "kafka__enable__auto__commit": "true"},
        "Kafka option 'enable.auto.commit' is not supported",
    ),
]
"""With the reason, in which both agree."""


# What is refused, the connectors refuse: one broker is enough.
@pytest.mark.parametrize("node", ["tidelog"], indirect=True, scope="module")
@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=str)
def test_the_same_queries_fail_for_the_same_reason(spark, node, options, reason):
    for name in FORMATS:
        with pytest.raises(Exception, match=f"(?is){reason}"):
            read(spark, node, name, **options).collect()


def stream(spark: Spark, node: NodeProcess, name: str, folder: Path, **options: Any) -> None:
    """An AvailableNow query into Parquet."""
    given = {key.replace("__", "."): str(value) for key, value in options.items()}
    servers = {"kafka.bootstrap.servers": node.bootstrap_servers}
    query = (
        spark.readStream.format(name)
        .options(**servers, **QUICK, **given)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    assert query.awaitTermination(QUERY_SECONDS_MAX)


def offsets(folder: Path) -> list[Any]:
    logs = sorted((folder / "checkpoint/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in logs]


def streamed(spark: Spark, folder: Path) -> list[Any]:
    return rows(spark.read.parquet(str(folder / "rows")))


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "codecs,appended", "maxOffsetsPerTrigger": 1000, "includeHeaders": "true"},
        {"subscribe": "transactions", "kafka__isolation__level": "read_committed"},
        {"subscribe": "compacted", "maxOffsetsPerTrigger": 371, "minPartitions": 4},
    ],
    ids=lambda options: options["subscribe"],
)
def test_streams_are_the_same_and_so_are_their_checkpoints(spark, node, tmp_path, options):
    for name in FORMATS:
        stream(spark, node, name, tmp_path / name, startingOffsets="earliest", **options)
    expected, found = (offsets(tmp_path / name) for name in FORMATS)
    assert found == expected
    assert streamed(spark, tmp_path / "tidelog") == streamed(spark, tmp_path / "kafka")
    assert spark.read.parquet(str(tmp_path / "tidelog" / "rows")).schema == (
        spark.read.parquet(str(tmp_path / "kafka" / "rows")).schema
    )


# Where a partition ends, both brokers say alike.
@pytest.mark.parametrize("node", ["tidelog"], indirect=True, scope="module")
@pytest.mark.parametrize(
    ("count", "starting"),
    [(1, {}), (3, {"startingOffsets": '{"%s": {"0": -1, "1": 100, "2": -2}}'})],
    ids=["latest", "mixed"],
)
def test_checkpoints_are_the_same_where_queries_start_at_the_latest_offset(
    spark, node, tmp_path, count, starting
):
    topic = f"started-{count}"
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, count, 1)])[topic].result()
    given = {name: text % topic for name, text in starting.items()}
    for first in (0, 1000):
        for partition in range(count):
            fill(node.bootstrap_servers, topic, partition, "lz4", first)
        for name in FORMATS:
            limit = {"maxOffsetsPerTrigger": 200}
            stream(spark, node, name, tmp_path / name, subscribe=topic, **given, **limit)
    expected, found = (offsets(tmp_path / name) for name in FORMATS)
    assert found == expected
    assert len(found) > 2
    rows_found = streamed(spark, tmp_path / "tidelog")
    assert rows_found == streamed(spark, tmp_path / "kafka")
    assert len(rows_found) == (300 if count == 1 else 300 + 500 + 600)


def test_a_query_changes_hands_between_the_connectors(spark, node, tmp_path):
    """The checkpoints are the same, so a query of one goes on as a query of the other."""
    given = {"subscribe": "empty", "startingOffsets": "earliest"}
    for number, name in enumerate(("kafka", "tidelog", "kafka")):
        fill(node.bootstrap_servers, "empty", number, "zstd", number * 1000)
        stream(spark, node, name, tmp_path, **given)
    found = streamed(spark, tmp_path)
    assert found == same(spark, node, subscribe="empty")
    assert len(found) == 900


def sink_rows(spark: Spark, topic: str) -> Frame:
    """Of every kind that a sink takes."""
    text = "CAST(CAST(id AS STRING) AS BINARY)"
    return spark.range(2000).selectExpr(
        f"'{topic}' AS topic",
        f"IF(id % 5 = 0, NULL, {text}) AS key",
        "IF(id % 7 = 0, NULL, CAST(repeat(CAST(id AS STRING), id % 40) AS BINARY)) AS value",
        f"IF(id % 3 = 0, NULL, array(struct('h' AS key, {text} AS value))) AS headers",
        "IF(id % 11 = 0, CAST(id % 4 AS INT), CAST(NULL AS INT)) AS partition",
    )


def content(row: Any) -> tuple[Any, ...]:
    return row.key, row.value, row.headers, row.partition


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_our_sink_writes_what_the_jvm_sink_writes(spark, node, codec):
    """To the same partitions too, where a key or the row decides."""
    servers = {"kafka.bootstrap.servers": node.bootstrap_servers}
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    found = []
    for name in FORMATS:
        topic = f"sink-of-{name}-{codec}"
        admin.create_topics([NewTopic(topic, 4, 1)])[topic].result()
        write = {**servers, "includeHeaders": "true", "kafka.compression.type": codec}
        sink_rows(spark, topic).write.format(name).options(**write).mode("append").save()
        read_back = same(spark, node, subscribe=topic, includeHeaders="true")
        assert len(read_back) == 2000
        found.append(read_back)
    theirs, ours = ([content(row) for row in side if row.key is not None] for side in found)
    assert sorted(ours, key=str) == sorted(theirs, key=str)
    theirs, ours = ([(row.value, row.headers) for row in side] for side in found)
    assert sorted(ours, key=str) == sorted(theirs, key=str)


def test_a_stream_of_ours_copies_a_topic(spark, node, tmp_path):
    servers = {"kafka.bootstrap.servers": node.bootstrap_servers}
    copy = "copied-by-ours"
    query = (
        spark.readStream.format("tidelog")
        .options(**servers, subscribe="codecs", startingOffsets="earliest", includeHeaders="true")
        .load()
        .select("key", "value", "headers", "partition")
        .writeStream.format("tidelog")
        .options(**servers, topic=copy, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
    )
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(copy, *TOPICS["codecs"][:1], 1)])[copy].result()
    assert query.start().awaitTermination(QUERY_SECONDS_MAX)
    theirs, ours = (
        sorted(map(content, same(spark, node, subscribe=topic, includeHeaders="true")), key=str)
        for topic in ("codecs", copy)
    )
    assert ours == theirs


def test_the_jvm_sink_writes_what_both_sources_read(spark, node, tmp_path):
    topic, copy = "of-the-sink", "of-the-streaming-sink"
    text = "CAST(CAST(id AS STRING) AS BINARY)"
    frame = spark.range(1000).selectExpr(
        f"'{topic}' AS topic",
        f"{text} AS key",
        "CAST(repeat(CAST(id AS STRING), 20) AS BINARY) AS value",
        f"array(struct('h' AS key, {text} AS value)) AS headers",
    )
    servers = {"kafka.bootstrap.servers": node.bootstrap_servers}
    write = {**servers, "includeHeaders": "true", "kafka.compression.type": "lz4"}
    frame.write.format("kafka").options(**write).save()
    found = same(spark, node, subscribe=topic, includeHeaders="true")
    assert len(found) == 1000
    query = (
        spark.readStream.format("kafka")
        .options(**servers, subscribe=topic, startingOffsets="earliest")
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .options(**servers, topic=copy, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    copied = same(spark, node, subscribe=copy)
    assert sorted((row.key, row.value) for row in copied) == (
        sorted((row.key, row.value) for row in found)
    )
