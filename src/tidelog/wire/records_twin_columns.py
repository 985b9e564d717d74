"""The twin's columns: records into Arrow's layout and back."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Literal

from tidelog.wire.batch_header import HEADER, LOG_APPEND_TIME
from tidelog.wire.records_twin_batches import BatchHead, read_head
from tidelog.wire.records_twin_parse import (
    Flawed,
    Header,
    ParsedRecord,
    parse_record,
    read_field,
    read_headers,
    wrap_int64,
    write_record,
)
from tidelog.wire.records_types import (
    COLUMN_BYTES_MAX,
    BinaryColumn,
    Column,
    Columns,
    CorruptRecords,
    EncodedRecords,
    Flaw,
    HeadersColumn,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER_COST = 8
"""What a header counts against bytes_max besides its bytes: empty ones take memory too."""


class _BinaryRows:
    """One binary column that grows."""

    def __init__(self) -> None:
        self.offsets = array("i", [0])
        self.data = bytearray()
        self.nulls: list[int] = []

    def append(self, field: bytes | None) -> None:
        if field is None:
            self.nulls.append(len(self.offsets) - 1)
        else:
            self.data += field
        self.offsets.append(len(self.data))

    def cut(self, rows: int, size: int, nulls: int) -> None:
        """Back to fewer rows."""
        del self.offsets[rows + 1 :], self.data[size:], self.nulls[nulls:]

    def column(self) -> BinaryColumn:
        rows = len(self.offsets) - 1
        validity = None
        if self.nulls:
            bits = bytearray(b"\xff" * (rows // 8))
            if rows % 8:
                bits.append((1 << rows % 8) - 1)
            for row in self.nulls:
                bits[row >> 3] ^= 1 << (row & 7)
            validity = bytes(bits)
        return BinaryColumn(bytes(self.offsets), bytes(self.data), validity, len(self.nulls))


class ColumnDecoder:
    """See records_types.ColumnDecoder."""

    def __init__(self, wanted: int, rows_max: int, bytes_max: int, /) -> None:
        assert rows_max > 0
        assert 0 < bytes_max <= COLUMN_BYTES_MAX
        self._wanted = Column(wanted)
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._forget()
        self._start_anew()

    def _forget(self) -> None:
        self._block = b""
        self._position = self._count = self._index = 0
        self._base_offset = self._base_timestamp = self._start_offset = self._end_offset = 0
        self._append_timestamp: int | None = None

    def _start_anew(self) -> None:
        self._rows = self._bytes = 0
        self._offsets = array("q")
        self._timestamps = array("q")
        self._keys, self._values = _BinaryRows(), _BinaryRows()
        self._header_offsets = array("i", [0])
        self._header_keys, self._header_values = _BinaryRows(), _BinaryRows()

    @property
    def rows(self) -> int:
        """Rows decoded and not taken yet."""
        return self._rows

    def feed(
        self,
        records: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_timestamp: int | None,
        start_offset: int,
        end_offset: int,
    ) -> None:
        """Begin a batch."""
        assert self._index == self._count, "the batch before is not decoded to its end"
        self._block = bytes(records)
        self._position = self._index = 0
        self._count = max(count, 0)
        self._base_offset, self._base_timestamp = base_offset, base_timestamp
        self._append_timestamp = append_timestamp
        self._start_offset, self._end_offset = start_offset, end_offset

    def fill(self) -> bool:
        """Decode on; False: full."""
        try:
            return self._fill()
        except Flawed as flawed:
            index, position = self._index, self._position
            self._forget()
            raise CorruptRecords(flawed.flaw, index, position) from None

    def _fill(self) -> bool:
        end = len(self._block)
        while self._index < self._count:
            record = parse_record(self._block, self._position, end)
            offset = wrap_int64(self._base_offset + record.offset_delta)
            if self._start_offset <= offset < self._end_offset and not self._append(offset, record):
                return False
            self._position = record.end
            self._index += 1
        if self._position != end:
            raise Flawed(Flaw.TRAILING_BYTES)
        return True

    def _append(self, offset: int, record: ParsedRecord) -> bool:
        key = read_field(self._block, record.key_start, record.key_end)
        value = read_field(self._block, record.value_start, record.value_end)
        headers = read_headers(self._block, record.headers_start, record.end)
        size = self._size(key, value, headers)
        if self._rows == self._rows_max or (self._rows and self._bytes + size > self._bytes_max):
            return False
        self._bytes += size
        self._rows += 1
        self._offsets.append(offset)
        created = wrap_int64(self._base_timestamp + record.timestamp_delta)
        appended = self._append_timestamp
        self._timestamps.append(created if appended is None else appended)
        self._keys.append(key)
        self._values.append(value)
        for header_key, header_value in headers:
            self._header_keys.append(header_key)
            self._header_values.append(header_value)
        self._header_offsets.append(len(self._header_keys.offsets) - 1)
        return True

    def feed_plain(
        self,
        batches: Buffer,
        position: int,
        next_offset: int,
        start_offset: int,
        end_offset: int,
        attributes: int,
        check_crc: bool,
    ) -> tuple[int, int]:
        """Decode whole batches up to one that needs a closer look."""
        assert self._index == self._count, "the batch before is not decoded to its end"
        view = memoryview(batches)
        self._start_offset, self._end_offset = start_offset, end_offset
        while (head := read_head(view, position, next_offset)) is not None:
            if head.attributes != attributes or head.base_offset >= end_offset:
                break
            if check_crc and not head.crc_is_right():
                break
            if head.next_offset > start_offset and not self._decode_plain(head):
                break
            position += len(head.batch)
            next_offset = head.next_offset
        self._forget()
        return position, next_offset

    def _decode_plain(self, head: BatchHead) -> bool:
        """All records of a batch or, where it is flawed or needs more room, none."""
        size = len(head.batch)
        if head.record_count > self._rows_max - self._rows or size > self._bytes_max - self._bytes:
            return False
        binaries = (self._keys, self._values, self._header_keys, self._header_values)
        before = [(len(b.offsets) - 1, len(b.data), len(b.nulls)) for b in binaries]
        rows, taken = self._rows, self._bytes
        self._block = bytes(head.batch[HEADER.size :])
        self._position = self._index = 0
        self._count = max(head.record_count, 0)
        self._base_offset, self._base_timestamp = head.base_offset, head.base_timestamp
        self._append_timestamp = head.max_timestamp if head.attributes & LOG_APPEND_TIME else None
        try:
            if self._fill():
                return True
        except Flawed:
            pass
        self._index = self._count = 0
        self._rows, self._bytes = rows, taken
        del self._offsets[rows:], self._timestamps[rows:], self._header_offsets[rows + 1 :]
        for binary, sizes in zip(binaries, before, strict=True):
            binary.cut(*sizes)
        return False

    def _size(self, key: bytes | None, value: bytes | None, headers: list[Header]) -> int:
        size = 0
        if Column.KEY in self._wanted:
            size += len(key or b"")
        if Column.VALUE in self._wanted:
            size += len(value or b"")
        if Column.HEADERS in self._wanted:
            size += sum(HEADER_COST + len(k) + len(v or b"") for k, v in headers)
        return size

    def take(self) -> Columns:
        """The columns; the decoder starts anew."""
        wanted = self._wanted
        headers = HeadersColumn(
            bytes(self._header_offsets),
            self._header_offsets[-1],
            self._header_keys.column(),
            self._header_values.column(),
        )
        columns = Columns(
            self._rows,
            bytes(self._offsets) if Column.OFFSET in wanted else None,
            bytes(self._timestamps) if Column.TIMESTAMP in wanted else None,
            self._keys.column() if Column.KEY in wanted else None,
            self._values.column() if Column.VALUE in wanted else None,
            headers if Column.HEADERS in wanted else None,
        )
        self._start_anew()
        return columns


def encode_records(
    columns: Columns,
    start_row: int,
    bytes_max: int,
    timestamp: int,
    order: Buffer | None = None,
    room: int = 0,
    /,
) -> EncodedRecords:
    """As many rows from start_row on as fit into bytes_max, at least one."""
    assert room >= 0
    rows = columns.rows
    picked = None if order is None else _row_numbers(order)
    places = rows if picked is None else len(picked)
    times = None
    keys, values = RowReader(columns.keys, rows), RowReader(columns.values, rows)
    if columns.timestamps is not None:
        times = integers(columns.timestamps, "q", rows)
    headers = _HeadersReader(columns.headers, rows)
    assert 0 <= start_row < places
    base_timestamp: int | None = None
    max_timestamp = -(1 << 63)
    records = bytearray(room)
    place = start_row
    while place < places:
        row = place if picked is None else picked[place]
        if not 0 <= row < rows:
            raise ValueError(f"the order names row {row} of {rows}")
        created = timestamp if times is None else times[row]
        base_timestamp = created if base_timestamp is None else base_timestamp
        record = write_record(
            wrap_int64(created - base_timestamp),
            place - start_row,
            keys.field(row),
            values.field(row),
            headers.fields(row),
        )
        if place > start_row and len(records) - room + len(record) > bytes_max:
            break
        records += record
        max_timestamp = max(max_timestamp, created)
        place += 1
    assert base_timestamp is not None
    return EncodedRecords(records, place, base_timestamp, max_timestamp)


def _row_numbers(order: Buffer) -> memoryview[int]:
    size = memoryview(order).nbytes
    return integers(order, "i", size // 4)


def integers(buffer: Buffer, kind: Literal["i", "q"], count: int) -> memoryview[int]:
    view = memoryview(buffer).cast("B")
    size = count * (8 if kind == "q" else 4)
    if len(view) < size:
        raise ValueError(f"a column's buffer has {len(view)} bytes, want {size}")
    return view[:size].cast(kind)


class RowReader:
    """Fields of a binary column; every row is null where there is no column."""

    def __init__(self, column: BinaryColumn | None, rows: int) -> None:
        self._column = column
        if column is None:
            return
        self._offsets = integers(column.offsets, "i", rows + 1)
        self._data = memoryview(column.data).cast("B")
        if column.validity is not None:
            self._validity = memoryview(column.validity).cast("B")
            if len(self._validity) * 8 < column.validity_start + rows:
                raise ValueError("a validity bitmap has fewer bits than there are rows")

    def field(self, row: int) -> bytes | None:
        column = self._column
        if column is None:
            return None
        if column.validity is not None:
            bit = column.validity_start + row
            if not self._validity[bit >> 3] >> (bit & 7) & 1:
                return None
        start, end = self._offsets[row], self._offsets[row + 1]
        if not 0 <= start <= end <= len(self._data):
            raise ValueError(f"row {row} lies outside of its column's data")
        return bytes(self._data[start:end])


class _HeadersReader:
    def __init__(self, column: HeadersColumn | None, rows: int) -> None:
        self._column = column
        if column is None:
            return
        if column.header_count < 0:
            raise ValueError("the headers' count is negative")
        self._offsets = integers(column.offsets, "i", rows + 1)
        self._keys = RowReader(column.keys, column.header_count)
        self._values = RowReader(column.values, column.header_count)

    def fields(self, row: int) -> tuple[Header, ...]:
        if self._column is None:
            return ()
        start, end = self._offsets[row], self._offsets[row + 1]
        if not 0 <= start <= end <= self._column.header_count:
            raise ValueError(f"row {row} has headers outside of their column")
        headers: list[Header] = []
        for index in range(start, end):
            key = self._keys.field(index)
            if key is None:
                raise ValueError(f"row {row} has a header without a key")
            headers.append((key, self._values.field(index)))
        return tuple(headers)
