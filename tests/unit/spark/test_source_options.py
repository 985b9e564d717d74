"""The source's options: defaults and errors of Spark's Kafka source, and what only ours has."""

from __future__ import annotations

import pytest

from tidelog.client import TopicPartition
from tidelog.client.offsets import EARLIEST, LATEST, IsolationLevel
from tidelog.spark.offsets import AtEnd
from tidelog.spark.options import OptionError
from tidelog.spark.schema import COLUMNS
from tidelog.spark.source_options import (
    Assign,
    Subscribe,
    SubscribePattern,
    batch_options,
    columns_of,
    stream_options,
)

SERVERS = {"kafka.bootstrap.servers": "a:1"}
TOPIC = {**SERVERS, "subscribe": "orders"}


def test_the_defaults_are_those_of_spark():
    batch, stream = batch_options(TOPIC), stream_options(TOPIC)
    assert (batch.starting, batch.ending) == (AtEnd(EARLIEST), AtEnd(LATEST))
    assert stream.starting == AtEnd(LATEST)
    assert batch.columns == COLUMNS
    assert batch.fail_on_data_loss
    assert not batch.latest_without_match
    assert batch.isolation is IsolationLevel.READ_UNCOMMITTED
    assert batch.poll_timeout_ms == 120_000
    assert (batch.offset_attempts, batch.offset_retry_ms) == (3, 1000)
    assert stream.max_trigger_delay_ms == 900_000
    assert batch.partitions_cache_ms == -1
    for name in (
        "min_partitions",
        "max_records_per_partition",
        "max_offsets_per_trigger",
        "min_offsets_per_trigger",
        "max_bytes_per_trigger",
    ):
        assert getattr(stream, name) is None


def test_three_ways_to_name_what_is_read():
    assert batch_options({**SERVERS, "subscribe": "b, a,,a "}).strategy == Subscribe(("a", "b"))
    pattern = batch_options({**SERVERS, "subscribePattern": " or.* "}).strategy
    assert pattern == SubscribePattern("or.*")
    assign = batch_options({**SERVERS, "assign": '{"a": [1]}'}).strategy
    assert assign == Assign((TopicPartition("a", 1),))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "One of the following options must be specified: subscribe, subscribePattern, assign"),
        ({"subscribe": "a", "assign": "{}"}, "Only one of the following options can be specified"),
        ({"subscribe": " , "}, "No topics to subscribe to: subscribe is ' , '"),
        ({"subscribePattern": " "}, "pattern to subscribe to is empty"),
        ({"subscribePattern": "a("}, r"subscribePattern is 'a\(', no regular expression"),
        ({"assign": "a-0"}, 'expected e.g. {"topicA"'),
        ({"minPartitions": "0"}, "minPartitions is '0': want a whole number from 1"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition is '-1'"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger is 'many'"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            r"minOffsetsPerTrigger \(9\) is higher than maxOffsetsPerTrigger \(8\)",
        ),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss is 'no', and may be true or false"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "may be error or latest"),
        ({"kafka.isolation.level": "none"}, "kafka.isolation.level is 'none', and may be read_un"),
        ({"kafka.auto.offset.reset": "earliest"}, "not supported: use the option startingOffsets"),
        ({"kafka.key.deserializer": "X"}, "not supported: keys are binary"),
        ({"kafka.value.deserializer": "X"}, "not supported: values are binary"),
        ({"kafka.enable.auto.commit": "true"}, "not supported: Spark keeps the offsets"),
        ({"kafka.interceptor.classes": "X"}, "not supported: interceptors"),
        ({"kafka.session.timeout.ms": "1"}, "does not know kafka.session.timeout.ms; it knows"),
        ({"kafka.max.partition.fetch.bytes": "1g"}, "kafka.max.partition.fetch.bytes is '1g'"),
        ({"startingOffset": "latest"}, r"did you mean startingOffsets\?"),
    ],
)
def test_wrong_options_are_named(options, words):
    base = SERVERS if {"subscribePattern", "assign"} & options.keys() or not options else TOPIC
    with pytest.raises(OptionError, match=words):
        stream_options({**base, **options})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest for batch queries"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets for a-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest for batch queries"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "endingOffsets for a-0 can't be earliest"),
        (
            {"startingOffsets": '{"a":{"0":1}}', "endingOffsets": '{"a":{"1":2}}'},
            "should have the same partitions; start: a-0; end: a-1",
        ),
        (
            {"startingOffsets": '{"a":{"0":3}}', "endingOffsets": '{"a":{"0":2}}'},
            "start offset 3 is greater than the end offset 2 for partition a-0",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"a":{"0":3}}',
                "endingOffsetsByTimestamp": '{"a":{"0":2}}',
            },
            "start timestamp 3 is greater than the end timestamp 2",
        ),
    ],
)
def test_a_batch_has_a_start_and_an_end(options, words):
    with pytest.raises(OptionError, match=words):
        batch_options({**TOPIC, **options})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(OptionError, match=f"{name} is not valid in streaming queries"):
        stream_options({**TOPIC, name: "latest"})


def test_a_stream_pushes_no_filters_down():
    with pytest.raises(OptionError, match="pushFilters is not valid in streaming queries"):
        stream_options({**TOPIC, "pushFilters": "true"})
    with pytest.raises(OptionError, match="pushFilters is 'perhaps', and may be true or false"):
        stream_options({**TOPIC, "pushFilters": "perhaps"})
    stream_options({**TOPIC, "pushFilters": "false"})


def test_limits_of_a_stream_are_no_error_in_a_batch(caplog):
    """Spark's Kafka source warns, too."""
    batch_options({**TOPIC, "maxOffsetsPerTrigger": "5"})
    assert "maxOffsetsPerTrigger is ignored in batch queries" in caplog.text


def test_kafka_settings_reach_fetches():
    options = batch_options(
        {
            **TOPIC,
            "kafka.isolation.level": "READ_COMMITTED",
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.fetch.max.wait.ms": "10",
            "kafka.check.crcs": "false",
        }
    )
    assert options.isolation is IsolationLevel.READ_COMMITTED
    assert (options.limits.partition_max_bytes, options.limits.max_wait_ms) == (1000, 10)
    assert not options.check_crcs


def test_a_group_is_only_a_name():
    assert batch_options(TOPIC).client.client_id == "consumer-spark-tidelog-source"
    prefixed = {**TOPIC, "groupIdPrefix": "mine"}
    assert batch_options(prefixed).client.client_id == "consumer-mine"
    grouped = {**prefixed, "kafka.group.id": "ours"}
    assert batch_options(grouped).client.client_id == "consumer-ours"
    assert batch_options({**grouped, "kafka.client.id": "c"}).client.client_id == "c"


def test_columns_are_chosen():
    assert columns_of({}) == COLUMNS
    assert columns_of({"includeHeaders": "true"}) == (*COLUMNS, "headers")
    assert columns_of({"columns": "Value, timestamptype"}) == ("value", "timestampType")
    for text, words in (
        ("value,val", "'val' is none of key, value, topic"),
        ("", "'' is none of"),
        ("value,value", "names a column twice"),
    ):
        with pytest.raises(OptionError, match=words):
            columns_of({"columns": text})
    with pytest.raises(OptionError, match="without headers"):
        columns_of({"columns": "value", "includeHeaders": "true"})
