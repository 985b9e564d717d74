"""Records are printed as Kafka's console consumer prints them, or as JSON that loses nothing."""

from __future__ import annotations

import json

import pytest

from tidelog.cli.formats import JsonFormatter, LineFormatter
from tidelog.wire.batch import LOG_APPEND_TIME, RecordBatch, read_batch
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records

EVERYTHING = {
    f"print.{name}": "true"
    for name in ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
}


def printed(formatter, key, value, headers=(), timestamp=5000, attributes=0) -> bytes:
    builder = BatchBuilder()
    builder.append(key, value, timestamp=timestamp, headers=headers)
    made = builder.build(base_offset=42, partition_leader_epoch=3, attributes=attributes)
    batch = read_batch(memoryview(made), 0, len(made))
    assert isinstance(batch, RecordBatch)
    (record,) = read_records(batch)
    return formatter.format("orders", 7, batch, record)


def line(**properties: str) -> LineFormatter:
    return LineFormatter.from_properties(properties)


def test_a_line_is_the_value_alone_unless_more_is_asked_for():
    assert printed(line(), b"k", b"v") == b"v\n"
    assert printed(line(**EVERYTHING), b"k", b"v", ((b"h", b"1"), (b"i", None))) == (
        b"CreateTime:5000\tPartition:7\tOffset:42\tEpoch:3\th:1,i:null\tk\tv\n"
    )


def test_what_is_missing_has_kafkas_words():
    formatter = line(**EVERYTHING)
    assert printed(formatter, None, None, timestamp=-1) == (
        b"NO_TIMESTAMP\tPartition:7\tOffset:42\tEpoch:3\tNO_HEADERS\tnull\tnull\n"
    )


def test_separators_and_nulls_can_be_chosen():
    formatter = line(
        **{"print.key": "true", "key.separator": "=", "line.separator": ";", "null.literal": "-"}
    )
    assert printed(formatter, None, b"\xff") == b"-=\xff;"


def test_log_append_time_is_told_apart():
    formatter = line(**{"print.timestamp": "true"})
    assert printed(formatter, None, b"v", attributes=LOG_APPEND_TIME) == b"LogAppendTime:5000\tv\n"


def test_a_property_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"no formatter property print\.keys; there are print\."):
        line(**{"print.keys": "true"})


def test_json_holds_everything():
    shown = json.loads(printed(JsonFormatter(), "ké".encode(), None, ((b"h", b"\xff"),)))
    assert shown == {
        "topic": "orders",
        "partition": 7,
        "offset": 42,
        "timestamp": 5000,
        "timestamp_type": "CREATE_TIME",
        "leader_epoch": 3,
        "key": "ké",
        "value": None,
        "headers": [{"name": "h", "value_base64": "/w=="}],
    }


def test_json_is_one_line_a_record():
    assert printed(JsonFormatter(), b"a\nb", b"c\nd").count(b"\n") == 1
