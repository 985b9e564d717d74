"""The pure Python twin of the compiled module: the fallback, and the tests' oracle.

It is written to be read, and to refuse exactly what the compiled module refuses, in the same
order. The column functions are in records_twin_columns, the choice of
partitions in records_twin_assign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.wire.batch_header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    LENGTH_END,
    MAGIC,
)
from tidelog.wire.records_twin_assign import assign_rows
from tidelog.wire.records_twin_batches import crc32c, read_batches, skip_batches, sum_up_batches
from tidelog.wire.records_twin_columns import ColumnDecoder, encode_records
from tidelog.wire.records_twin_parse import Flawed, parse_record, wrap_int64
from tidelog.wire.records_types import (
    RECORD_ERRORS_MAX,
    BadRecord,
    CorruptRecords,
    Flaw,
    RecordsCheck,
    RecordSpan,
    SingleProduce,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "ColumnDecoder",
    "accept_batch",
    "assign_rows",
    "crc32c",
    "encode_records",
    "parse_produce",
    "read_batches",
    "skip_batches",
    "sum_up_batches",
    "validate_records",
    "walk_records",
]

UNUSUAL_ATTRIBUTES = COMPRESSION_MASK | CONTROL | DELETE_HORIZON
"""The codec, a control batch, a delete horizon: what has one of these is looked at closely."""


def validate_records(
    data: Buffer,
    count: int,
    base_timestamp: int,
    timestamp_min: int,
    timestamp_max: int,
    key_required: bool,
    /,
) -> RecordsCheck:
    """Check everything about a produced batch's records."""
    block = bytes(data)
    position = 0
    greatest = _Greatest(-1, -1)
    bad_records: list[BadRecord] = []
    for index in range(count):
        try:
            record = parse_record(block, position, len(block))
        except Flawed as flawed:
            return _flawed(flawed.flaw, index, position)
        if record.offset_delta != index:
            return _flawed(Flaw.OFFSET_DELTA, index, position)
        timestamp = wrap_int64(base_timestamp + record.timestamp_delta)
        if timestamp > greatest.timestamp:
            greatest = _Greatest(timestamp, index)
        key_missing = key_required and record.key_start < 0
        # -1 is "no timestamp", which no rule refuses.
        out_of_range = timestamp != -1 and not timestamp_min <= timestamp <= timestamp_max
        if (key_missing or out_of_range) and len(bad_records) < RECORD_ERRORS_MAX:
            bad_records.append(BadRecord(index, key_missing, timestamp))
        position = record.end
    if position != len(block):
        return _flawed(Flaw.TRAILING_BYTES, max(count, 0), position)
    return RecordsCheck(Flaw.NONE, 0, 0, *greatest, bad_records)


class _Greatest(NamedTuple):
    timestamp: int
    offset_delta: int


def _flawed(flaw: int, index: int, position: int) -> RecordsCheck:
    return RecordsCheck(flaw, index, position, -1, -1, [])


def accept_batch(
    data: Buffer,
    size_max: int,
    timestamp_min: int,
    timestamp_max: int,
    key_required: bool,
    /,
) -> tuple[int, int] | None:
    """The usual produced batch, checked in one go; None: look more closely."""
    batch = memoryview(data)
    if not HEADER.size <= len(batch) <= size_max:
        return None
    header = HEADER.unpack_from(batch)
    base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp = header[:8]
    producer_id, base_sequence, count = header[9], header[11], header[12]
    if (
        (base_offset, length, magic) != (0, len(batch) - LENGTH_END, MAGIC)
        or attributes & UNUSUAL_ATTRIBUTES
        or count <= 0
        or last_delta != count - 1
        or (producer_id >= 0 and base_sequence < 0)
        or crc32c(batch[CRC_START:]) != crc
    ):
        return None
    check = validate_records(
        batch[HEADER.size :],
        count,
        base_timestamp,
        timestamp_min,
        timestamp_max,
        key_required,
    )
    if check.flaw or check.bad_records:
        return None
    return check.max_timestamp, check.max_timestamp_offset_delta


def parse_produce(frame: memoryview, /) -> SingleProduce | None:
    """Never: without the compiled module nothing is faster than the general decoder."""
    return None


def walk_records(data: Buffer, count: int, /) -> list[RecordSpan]:
    """All records, for those who need their keys. Raises CorruptRecords."""
    block = bytes(data)
    position = 0
    spans = []
    for index in range(count):
        try:
            record = parse_record(block, position, len(block))
        except Flawed as flawed:
            raise CorruptRecords(flawed.flaw, index, position) from None
        key = block[record.key_start : record.key_end] if record.key_start >= 0 else None
        spans.append(
            RecordSpan(
                record.offset_delta,
                record.timestamp_delta,
                key,
                record.value_start,
                record.value_end,
                record.headers_start,
                position,
                record.tail_start,
                record.end,
            )
        )
        position = record.end
    if position != len(block):
        raise CorruptRecords(Flaw.TRAILING_BYTES, max(count, 0), position)
    return spans
