"""The columns of a record, as Spark declares them and as Arrow carries them.

Spark compares the two: the Arrow types are exactly what it makes of its own declaration.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidelog.wire.records_types import Column

HEADERS = "headers"

SPARK_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key: string, value: binary>>",
}
"""In the order of Spark's Kafka source, whose names and types these are; all may be null."""

COLUMNS = tuple(name for name in SPARK_TYPES if name != HEADERS)
"""Without `columns` and `includeHeaders`."""

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
ARROW_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP_TYPE,
    "timestampType": pa.int32(),
    HEADERS: pa.list_(HEADER_TYPE),
}

DECODED = {
    "key": Column.KEY,
    "value": Column.VALUE,
    "offset": Column.OFFSET,
    "timestamp": Column.TIMESTAMP,
    HEADERS: Column.HEADERS,
}
"""What of a record the decoder has to copy; the other columns are the same in all of a batch."""


def spark_schema(columns: Sequence[str]) -> str:
    """Spark's declaration of these columns."""
    return ", ".join(f"`{name}` {SPARK_TYPES[name]}" for name in columns)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """What a record batch of these columns must be."""
    return pa.schema([pa.field(name, ARROW_TYPES[name]) for name in columns])


def decoded_columns(columns: Sequence[str]) -> Column:
    """What the decoder is asked for."""
    wanted = Column(0)
    for name in columns:
        wanted |= DECODED.get(name, Column(0))
    return wanted
