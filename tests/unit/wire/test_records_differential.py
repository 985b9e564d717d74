"""The compiled module and its twin give the same answers, to the sound and to the hostile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import examples
from tests.unit.wire.record_samples import (
    COUNTS,
    INT64,
    RECORDS,
    block_of,
    hostile_blocks,
)

from tidelog.wire import records, records_twin
from tidelog.wire.batch_reader import Record
from tidelog.wire.records_types import (
    BinaryColumn,
    Columns,
    CorruptRecords,
    HeadersColumn,
    RecordsModule,
)

chosen: RecordsModule = records.implementation
twin: RecordsModule = records_twin


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What it returned, or what it raised and where that was."""
    try:
        return function(*args)
    except CorruptRecords as corrupt:
        return ("corrupt", corrupt.flaw, corrupt.index, corrupt.position)
    except ValueError:
        return "contradiction"


def decode_all(module: RecordsModule, blocks: list[tuple[bytes, int]], *args: Any) -> list[Any]:
    """All that a decoder says to batch after batch, errors in between."""
    wanted, rows_max, bytes_max, *batch = args
    decoder = module.ColumnDecoder(wanted, rows_max, bytes_max)
    said: list[Any] = []
    for block, count in blocks:
        decoder.feed(block, count, *batch)
        while (answer := outcome(decoder.fill)) is False:
            said.append(decoder.take())
        said.append((answer, decoder.rows))
    return [*said, decoder.take(), decoder.take()]


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_crc32c(data: bytes, value: int) -> None:
    assert chosen.crc32c(data, value) == twin.crc32c(data, value)


@examples(500)
@given(hostile_blocks(), INT64, INT64, INT64, st.booleans())
def test_validate(
    hostile: tuple[bytes, int], base: int, least: int, greatest: int, key_required: bool
) -> None:
    args = (*hostile, base, least, greatest, key_required)
    assert chosen.validate_records(*args) == twin.validate_records(*args)


@examples(300)
@given(hostile_blocks())
def test_walk(hostile: tuple[bytes, int]) -> None:
    assert outcome(chosen.walk_records, *hostile) == outcome(twin.walk_records, *hostile)


@examples(500)
@given(
    st.lists(hostile_blocks(), max_size=3),
    st.tuples(
        st.integers(0, 31),  # wanted
        st.integers(1, 20),  # rows_max
        st.integers(1, 600),  # bytes_max
        INT64 | st.just(0),  # base_offset
        INT64 | st.just(0),  # base_timestamp
        st.none() | INT64,  # append_timestamp
        st.integers(-3, 5) | INT64,  # start_offset
        st.integers(0, 12) | INT64,  # end_offset
    ),
)
def test_decode(blocks: list[tuple[bytes, int]], args: tuple[Any, ...]) -> None:
    assert decode_all(chosen, blocks, *args) == decode_all(twin, blocks, *args)


@examples(200)
@given(RECORDS, st.integers(0, 12), st.integers(0, 500), INT64)
def test_encode_what_was_decoded(
    samples: list[Record], start_row: int, bytes_max: int, timestamp: int
) -> None:
    decoder = twin.ColumnDecoder(31, 100, 1 << 20)
    decoder.feed(block_of(samples), len(samples), 0, 0, None, 0, 100)
    assert decoder.fill()
    columns = decoder.take()
    if start_row >= columns.rows:
        return
    args = (columns, start_row, bytes_max, timestamp)
    assert chosen.encode_records(*args) == twin.encode_records(*args)
    without = columns._replace(timestamps=None, headers=None)
    assert outcome(chosen.encode_records, without, *args[1:]) == outcome(
        twin.encode_records, without, *args[1:]
    )
    whole = chosen.encode_records(columns, 0, 1 << 20, timestamp)
    decoder.feed(whole.records, columns.rows, 0, whole.base_timestamp, None, 0, 100)
    assert decoder.fill()
    assert decoder.take() == columns


INT32 = st.integers(-2, 12) | st.integers(-(2**31), 2**31 - 1)
BUFFERS = st.binary(max_size=24) | st.lists(INT32, max_size=6).map(
    lambda ints: b"".join(i.to_bytes(4, "little", signed=True) for i in ints)
)
SANE_BUFFERS = st.just(b"".join(i.to_bytes(4, "little") for i in range(5)))
BINARY = st.builds(
    BinaryColumn,
    BUFFERS | SANE_BUFFERS,
    st.binary(max_size=10),
    st.none() | st.binary(max_size=3),
    st.just(0),
    st.integers(0, 20),
)
ANY_HEADERS = st.builds(HeadersColumn, BUFFERS | SANE_BUFFERS, st.integers(-1, 5), BINARY, BINARY)


@examples(500)
@given(
    st.builds(
        Columns,
        st.integers(1, 4),
        st.none(),
        st.none() | BUFFERS | SANE_BUFFERS,
        st.none() | BINARY,
        st.none() | BINARY,
        st.none() | ANY_HEADERS,
    ),
    st.integers(0, 60),
)
def test_encode_columns_that_contradict_themselves(columns: Columns, bytes_max: int) -> None:
    args = (columns, 0, bytes_max, 5)
    assert outcome(chosen.encode_records, *args) == outcome(twin.encode_records, *args)


@given(st.binary(max_size=200), COUNTS, st.binary(max_size=3))
def test_any_buffer_will_do(block: bytes, count: int, prefix: bytes) -> None:
    """Views, writable or not, that start anywhere."""
    plain = outcome(chosen.walk_records, block, count)
    moved = memoryview(bytearray(prefix + block))[len(prefix) :]
    assert outcome(chosen.walk_records, moved, count) == plain
    assert chosen.crc32c(moved) == twin.crc32c(block)
