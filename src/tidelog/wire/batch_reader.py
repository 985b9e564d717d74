"""Reads records out of batches: as objects for coordinators and the metadata log, as columns
for Spark. The broker's produce and fetch paths do neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidelog.types import Offset
from tidelog.wire import records
from tidelog.wire.batch import RecordBatch, TimestampType
from tidelog.wire.batch_builder import assemble_batch
from tidelog.wire.compression import DECOMPRESSED_BYTES_MAX, Compression
from tidelog.wire.records_twin_parse import (
    Flawed,
    Header,
    parse_record,
    read_field,
    read_headers,
    wrap_int64,
)
from tidelog.wire.records_types import COLUMN_BYTES_MAX, Column, Columns, CorruptRecords, Flaw

ROWS_MAX = 10_000
COLUMNS_BYTES_MAX = 64 << 20
"""What a decoder gathers before it hands its columns on; Spark's own limits for a batch."""


class Record(NamedTuple):
    """A record with what its batch says about it."""

    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


AT_ONCE_MAX = 100
"""Records that are found in one go by the compiled module; beyond that one by one."""


def read_records(batch: RecordBatch, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """All records of a batch, control records too. Raises CorruptRecords and what
    decompressing raises."""
    block = bytes(batch.decompressed(bytes_max))
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    found = []
    for span in records.walk_records(block, batch.record_count):
        created = wrap_int64(batch.base_timestamp + span.timestamp_delta)
        found.append(
            Record(
                wrap_int64(batch.base_offset + span.offset_delta),
                batch.max_timestamp if appended else created,
                span.key,
                None if span.value_start < 0 else block[span.value_start : span.value_end],
                # Most have none: a count of one byte.
                tuple(read_headers(block, span.headers_start, span.end))
                if block[span.headers_start]
                else (),
            )
        )
    return found


def each_record(batch: RecordBatch, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The same, one after the other: a large batch takes more than a step."""
    if batch.record_count <= AT_ONCE_MAX:
        yield from read_records(batch, bytes_max)
        return
    block = bytes(batch.decompressed(bytes_max))
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    position = 0
    for index in range(batch.record_count):
        try:
            parsed = parse_record(block, position, len(block))
        except Flawed as flawed:
            raise CorruptRecords(flawed.flaw, index, position) from None
        created = wrap_int64(batch.base_timestamp + parsed.timestamp_delta)
        yield Record(
            wrap_int64(batch.base_offset + parsed.offset_delta),
            batch.max_timestamp if appended else created,
            read_field(block, parsed.key_start, parsed.key_end),
            read_field(block, parsed.value_start, parsed.value_end),
            tuple(read_headers(block, parsed.headers_start, parsed.end)),
        )
        position = parsed.end
    if position != len(block):
        raise CorruptRecords(Flaw.TRAILING_BYTES, batch.record_count, position)


def read_columns(
    batches: Iterable[RecordBatch],
    start_offset: Offset,
    end_offset: Offset,
    *,
    wanted: Column = Column.ALL,
    rows_max: int = ROWS_MAX,
    bytes_max: int = COLUMNS_BYTES_MAX,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[Columns]:
    """The records of [start_offset, end_offset) as columns of at most rows_max rows; control
    batches are skipped. A batch of an aborted transaction is the caller's to leave out.
    Raises CorruptRecords and what decompressing raises."""
    decoder = records.ColumnDecoder(wanted, rows_max, bytes_max)
    for batch in batches:
        if batch.is_control or batch.last_offset < start_offset or batch.base_offset >= end_offset:
            continue
        appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        decoder.feed(
            batch.decompressed(decompressed_bytes_max),
            batch.record_count,
            batch.base_offset,
            batch.base_timestamp,
            batch.max_timestamp if appended else None,
            start_offset,
            end_offset,
        )
        while not decoder.fill():
            yield decoder.take()
    if decoder.rows:
        yield decoder.take()


def write_columns(
    columns: Columns,
    *,
    records_bytes_max: int,
    timestamp: int,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
) -> Iterator[bytearray]:
    """The rows as batches for Produce, each of records_bytes_max bytes before compression or of
    one larger row; timestamp is for rows without one of their own."""
    row = 0
    while row < columns.rows:
        encoded = records.encode_records(columns, row, records_bytes_max, timestamp)
        yield assemble_batch(
            encoded.records,
            encoded.end_row - row,
            base_timestamp=encoded.base_timestamp,
            max_timestamp=encoded.max_timestamp,
            compression=compression,
            compression_level=compression_level,
        )
        row = encoded.end_row


def split_batch(batch: RecordBatch, records_bytes_max: int) -> list[bytearray]:
    """The same records in batches of at most so many bytes before compression, or of one larger
    record. Raises CorruptRecords and what decompressing raises."""
    codec = Compression(batch.codec)
    every = read_columns(
        [batch],
        batch.base_offset,
        batch.next_offset,
        rows_max=batch.record_count,
        bytes_max=COLUMN_BYTES_MAX,
    )
    return [
        part
        for columns in every
        for part in write_columns(
            columns,
            records_bytes_max=records_bytes_max,
            timestamp=batch.base_timestamp,
            compression=codec,
        )
    ]
