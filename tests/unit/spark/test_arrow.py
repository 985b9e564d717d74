"""Batches of every codec and kind become the Arrow columns that Spark expects, row for row."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tidelog.client import TopicPartition
from tidelog.spark.arrow import ArrowDecoder, MalformedTimestamp
from tidelog.spark.schema import COLUMNS, HEADERS, arrow_schema, spark_schema
from tidelog.wire.batch import TimestampType, read_batch
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

PARTITION = TopicPartition("orders", 3)
ALL = (*COLUMNS, HEADERS)
START_MS = 1_700_000_000_000


def batch_of(*records, base_offset=0, attributes=0, compression=Compression.NONE):
    """Of records (key, value, timestamp, headers)."""
    builder = BatchBuilder()
    for key, value, timestamp, headers in records:
        builder.append(key, value, timestamp=timestamp, headers=headers)
    data = builder.build(base_offset=base_offset, attributes=attributes, compression=compression)
    return read_batch(memoryview(data), 0, len(data))


def numbered(count, **batch):
    return batch_of(*((b"k%d" % n, b"v" * n, START_MS + n, ()) for n in range(count)), **batch)


def decode(batches, columns=ALL, start_offset=0, end_offset=1 << 62, **limits):
    decoder = ArrowDecoder(PARTITION, columns, **limits)
    found = []
    for batch in batches:
        found += decoder.feed(batch, start_offset, end_offset)
    found += decoder.finish()
    for arrow in found:
        arrow.validate(full=True)
        assert arrow.schema.equals(arrow_schema(columns))
    return found


def rows(batches, *args, **kwargs):
    return [row for arrow in decode(batches, *args, **kwargs) for row in arrow.to_pylist()]


@pytest.mark.parametrize("codec", Compression)
def test_a_record_becomes_a_row_in_every_codec(codec):
    batch = batch_of(
        (b"key", b"value", START_MS, ((b"trace", b"1"), (b"empty", None))),
        (None, None, START_MS + 1, ()),
        (b"", b"", -1, ((b"", b""),)),
        base_offset=40,
        compression=codec,
    )
    first, second, third = rows([batch])
    assert first == {
        "key": b"key",
        "value": b"value",
        "topic": "orders",
        "partition": 3,
        "offset": 40,
        "timestamp": datetime.fromtimestamp(START_MS / 1000, UTC),
        "timestampType": 0,
        "headers": [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)
    assert (third["key"], third["value"], third["headers"]) == (
        b"",
        b"",
        [{"key": "", "value": b""}],
    )
    assert third["timestamp"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)


def test_only_offsets_of_the_range_become_rows():
    batches = [numbered(10), numbered(10, base_offset=20)]
    offsets = [row["offset"] for row in rows(batches, ("offset",), 7, 22)]
    assert offsets == [7, 8, 9, 20, 21]


def test_batches_are_cut_by_rows_and_by_bytes():
    sizes = [arrow.num_rows for arrow in decode([numbered(10)] * 3, rows_max=7)]
    assert sizes == [7, 7, 7, 7, 2]
    sizes = [arrow.num_rows for arrow in decode([numbered(10)], ("value",), bytes_max=12)]
    assert sizes == [5, 2, 1, 1, 1], "0 to 4 bytes, 5 and 6, then one too large with the next"


def test_a_topic_may_change_its_timestamp_type():
    appended = TimestampType.LOG_APPEND_TIME << 3
    batches = [
        numbered(2),
        numbered(2, base_offset=2, attributes=appended),
        numbered(1, base_offset=4),
    ]
    found = decode(batches)
    assert [arrow.num_rows for arrow in found] == [2, 2, 1]
    assert [row["timestampType"] for arrow in found for row in arrow.to_pylist()] == [0, 0, 1, 1, 0]
    times = [row["timestamp"].microsecond for row in found[1].to_pylist()]
    assert times == [1000, 1000], "LogAppendTime is the batch's"


def test_fewer_columns_are_decoded_in_the_order_asked_for():
    assert rows([numbered(2)], ("partition", "key")) == [
        {"partition": 3, "key": b"k0"},
        {"partition": 3, "key": b"k1"},
    ]
    assert rows([numbered(2)], ("topic",)) == [{"topic": "orders"}] * 2


def test_a_time_that_overflows_is_named():
    batch = batch_of((b"k", b"v", START_MS, ()), (b"k", b"v", START_MS * 1_000_000, ()))
    with pytest.raises(MalformedTimestamp, match=f"orders-3 has the timestamp {START_MS}000000"):
        rows([batch])
    assert len(rows([batch], ("value",))) == 2


def test_a_header_key_that_is_no_utf8_is_replaced_as_java_does():
    broken = batch_of((b"k", b"v", START_MS, ((b"na\xffve", b"x"),)))
    (row,) = rows([broken])
    assert row["headers"] == [{"key": "na\ufffdve", "value": b"x"}]


def test_the_declarations_agree():
    types = pytest.importorskip("pyspark.sql.pandas.types")
    session_types = pytest.importorskip("pyspark.sql.types")
    fields = {
        "key": session_types.BinaryType(),
        "value": session_types.BinaryType(),
        "topic": session_types.StringType(),
        "partition": session_types.IntegerType(),
        "offset": session_types.LongType(),
        "timestamp": session_types.TimestampType(),
        "timestampType": session_types.IntegerType(),
        HEADERS: session_types.ArrayType(
            session_types.StructType()
            .add("key", session_types.StringType())
            .add("value", session_types.BinaryType())
        ),
    }
    declared = session_types.StructType()
    for name, kind in fields.items():
        declared.add(name, kind)
    assert types.to_arrow_schema(declared, timezone="UTC").equals(arrow_schema(ALL))
    assert spark_schema(("key", "offset")) == "`key` binary, `offset` bigint"
    assert [f"`{f.name}` {f.dataType.simpleString()}" for f in declared][:7] == spark_schema(
        COLUMNS
    ).split(", ")
    assert isinstance(arrow_schema(ALL), pa.Schema)
