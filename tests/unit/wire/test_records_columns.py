"""Columns: they become Arrow arrays without a copy, and batches again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.record_samples import (
    IMPLEMENTATIONS,
    RECORDS,
    batch_of,
    block_of,
    java_batches,
    java_samples,
)

from tidelog.wire.batch import CONTROL, LOG_APPEND_TIME
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import Record, read_columns, read_records, write_columns
from tidelog.wire.compression import Compression
from tidelog.wire.records_types import (
    BinaryColumn,
    Column,
    Columns,
    CorruptRecords,
    HeadersColumn,
    RecordsModule,
)

FAR = 1 << 62


@pytest.fixture(params=IMPLEMENTATIONS)
def module(request: pytest.FixtureRequest) -> RecordsModule:
    return IMPLEMENTATIONS[request.param]


def binary_array(column: BinaryColumn, rows: int, kind: Any = None) -> Any:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind or pa.binary(), rows, buffers, column.null_count)


def headers_array(column: HeadersColumn, rows: int) -> Any:
    keys = binary_array(column.keys, column.header_count, pa.string())
    values = binary_array(column.values, column.header_count)
    structs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(structs.type), rows, [None, pa.py_buffer(column.offsets)], 0, children=[structs]
    )


def to_table(columns: Columns) -> Any:
    assert columns.offsets is not None
    assert columns.timestamps is not None
    assert columns.keys is not None
    assert columns.values is not None
    assert columns.headers is not None
    int64s = [
        pa.Array.from_buffers(pa.int64(), columns.rows, [None, pa.py_buffer(buffer)])
        for buffer in (columns.offsets, columns.timestamps)
    ]
    batch = pa.record_batch(
        [
            *int64s,
            binary_array(columns.keys, columns.rows),
            binary_array(columns.values, columns.rows),
            headers_array(columns.headers, columns.rows),
        ],
        names=["offset", "timestamp", "key", "value", "headers"],
    )
    batch.validate(full=True)
    return batch


def rows_of(columns: Columns) -> list[Record]:
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"].encode(), header["value"]) for header in row["headers"]),
        )
        for row in to_table(columns).to_pylist()
    ]


def test_arrow_takes_the_columns(module: RecordsModule) -> None:
    samples = java_samples(100)
    decoder = module.ColumnDecoder(Column.ALL, 1000, 1 << 20)
    decoder.feed(block_of(samples), 100, 0, 0, None, 0, FAR)
    assert decoder.fill()
    assert decoder.rows == 100
    columns = decoder.take()
    assert rows_of(columns) == samples
    assert decoder.rows == 0
    assert columns.values is not None
    array = binary_array(columns.values, columns.rows)
    assert array.buffers()[2].address == pa.py_buffer(columns.values.data).address  # no copy
    assert rows_of(decoder.take()) == []


def test_columns_gather_batches_up_to_their_limits(module: RecordsModule) -> None:
    samples = java_samples(50)
    block = block_of(samples)
    decoder = module.ColumnDecoder(Column.ALL, 7, 1 << 20)
    taken: list[Record] = []
    for base_offset in (0, 50, 100):
        decoder.feed(block, 50, base_offset, 0, None, 0, FAR)
        while not decoder.fill():
            assert decoder.rows == 7
            taken += rows_of(decoder.take())
    taken += rows_of(decoder.take())
    expected = [s._replace(offset=base + s.offset) for base in (0, 50, 100) for s in samples]
    assert taken == expected


def test_bytes_are_limited_but_one_row_always_fits(module: RecordsModule) -> None:
    samples = [Record(i, 0, b"k" * 10, b"v" * 30, ()) for i in range(10)]
    samples[4] = samples[4]._replace(value=b"v" * 500)
    decoder = module.ColumnDecoder(Column.ALL, 1000, 80)
    decoder.feed(block_of(samples), 10, 0, 0, None, 0, FAR)
    sizes = []
    while not decoder.fill():
        sizes.append(decoder.take().rows)
    assert [*sizes, decoder.take().rows] == [2, 2, 1, 2, 2, 1]


def test_unwanted_columns_are_left_out(module: RecordsModule) -> None:
    for wanted in range(32):
        decoder = module.ColumnDecoder(wanted, 10, 1000)
        decoder.feed(block_of(java_samples(5)), 5, 0, 0, None, 0, FAR)
        assert decoder.fill()
        columns = decoder.take()
        assert columns.rows == 5
        present = sum(1 << i for i, column in enumerate(columns[1:]) if column is not None)
        assert present == wanted


def test_rows_before_a_corrupt_record_stay(module: RecordsModule) -> None:
    decoder = module.ColumnDecoder(Column.ALL, 10, 1000)
    decoder.feed(block_of(java_samples(3)) + b"\1", 4, 0, 0, None, 0, FAR)
    with pytest.raises(CorruptRecords) as raised:
        decoder.fill()
    assert raised.value.index == 3
    decoder.feed(block_of(java_samples(1)), 1, 10, 0, None, 0, FAR)  # and the decoder goes on
    assert decoder.fill()
    assert [row.offset for row in rows_of(decoder.take())] == [0, 1, 2, 10]


def test_offsets_filter(module: RecordsModule) -> None:
    decoder = module.ColumnDecoder(Column.OFFSET, 10, 1000)
    decoder.feed(block_of(java_samples(9)), 9, 100, 0, None, 103, 106)
    assert decoder.fill()
    offsets = decoder.take().offsets
    assert offsets is not None
    assert list(memoryview(offsets).cast("q")) == [103, 104, 105]


@pytest.mark.parametrize("name", java_batches())
def test_columns_of_javas_batches(name: str) -> None:
    batch = batch_of(java_batches()[name])
    rows = [
        row for columns in read_columns([batch], 0, FAR, rows_max=2) for row in rows_of(columns)
    ]
    assert rows == ([] if batch.is_control else read_records(batch))


def test_control_batches_are_skipped_and_append_time_rules() -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", timestamp=5)
    builder.append(b"k", b"v", timestamp=9)
    batches = [
        batch_of(builder.build(base_offset=0)),
        batch_of(builder.build(base_offset=2, attributes=CONTROL)),
        batch_of(builder.build(base_offset=4, attributes=LOG_APPEND_TIME)),
        batch_of(builder.build(base_offset=6)),
    ]
    (columns,) = read_columns(batches, 0, 6)
    assert [(row.offset, row.timestamp) for row in rows_of(columns)] == [
        (0, 5),
        (1, 9),
        (4, 9),
        (5, 9),
    ]


@given(RECORDS.filter(len), st.sampled_from(Compression), st.integers(1, 400))
def test_columns_to_batches_and_back(
    samples: list[Record], codec: Compression, bytes_max: int
) -> None:
    whole = block_of(samples)
    decoder = IMPLEMENTATIONS["chosen"].ColumnDecoder(Column.ALL, 100, 1 << 20)
    decoder.feed(whole, len(samples), 0, 0, None, 0, FAR)
    assert decoder.fill()
    columns = decoder.take()
    found = []
    for data in write_columns(columns, records_bytes_max=bytes_max, timestamp=3, compression=codec):
        batch = batch_of(data)
        assert batch.crc_is_right()
        assert batch.record_count == 1 or len(batch.decompressed()) <= bytes_max
        read = read_records(batch)
        assert batch.max_timestamp == max(record.timestamp for record in read)
        assert [record.offset for record in read] == list(range(len(read)))
        found += read
    assert [record[1:] for record in found] == [record[1:] for record in samples]


def test_arrows_slices_encode(module: RecordsModule) -> None:
    """A slice starts anywhere, also inside a byte of the bitmap."""
    array = pa.array([b"zero", None, b"two", None, b"four", b"", b"six"], pa.binary())
    for start in range(len(array)):
        part = array[start:]
        validity, offsets, data = part.buffers()
        column = BinaryColumn(
            memoryview(offsets)[part.offset * 4 :], data, validity, part.null_count, part.offset
        )
        columns = Columns(len(part), None, None, None, column, None)
        encoded = module.encode_records(columns, 0, 1 << 20, 77)
        assert (encoded.end_row, encoded.base_timestamp) == (len(part), 77)
        spans = module.walk_records(encoded.records, len(part))
        values = [
            None if s.value_start < 0 else bytes(encoded.records[s.value_start : s.value_end])
            for s in spans
        ]
        assert values == part.to_pylist()
