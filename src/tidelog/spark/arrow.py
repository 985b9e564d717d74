"""Record batches become Arrow record batches: the compiled decoder fills the buffers, and nothing
here touches a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidelog.client import TopicPartition
from tidelog.spark.schema import HEADER_TYPE, HEADERS, TIMESTAMP_TYPE, arrow_schema, decoded_columns
from tidelog.types import Offset
from tidelog.wire import records
from tidelog.wire.batch import LOG_APPEND_TIME, RecordBatch, TimestampType
from tidelog.wire.batch_reader import ROWS_MAX
from tidelog.wire.compression import DECOMPRESSED_BYTES_MAX
from tidelog.wire.records_types import BinaryColumn, Columns, HeadersColumn

COLUMNS_BYTES_MAX = 1 << 20
"""Of an Arrow batch, unless one record is larger: it bounds what a worker holds."""

TIMESTAMP_MS_MAX = ((1 << 63) - 1) // 1000
"""Beyond it a time in milliseconds is none in microseconds."""


class MalformedTimestamp(ValueError):
    """A record's time does not fit Spark's timestamp."""


class ArrowDecoder:
    """Decodes batches of one partition, in the order of their offsets:

        for batch in batches:
            yield from decoder.feed(batch, start_offset, end_offset)
        yield from decoder.finish()

    Only records of [start_offset, end_offset) become rows. Control batches, and batches of
    aborted transactions, are the caller's to leave out.
    """

    def __init__(
        self,
        partition: TopicPartition,
        columns: Sequence[str],
        *,
        rows_max: int = ROWS_MAX,
        bytes_max: int = COLUMNS_BYTES_MAX,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self.partition = partition
        self.columns = tuple(columns)
        self.rows_max = rows_max
        self.decompressed_bytes_max = decompressed_bytes_max
        self._schema = arrow_schema(columns)
        self._decoder = records.ColumnDecoder(decoded_columns(columns), rows_max, bytes_max)
        self._timestamp_type = TimestampType.CREATE_TIME
        """Of the rows in the decoder: a topic may have changed it from batch to batch."""
        self._constants: dict[tuple[str, int], pa.Array] = {}

    def feed(
        self, batch: RecordBatch, start_offset: Offset, end_offset: Offset
    ) -> Iterator[pa.RecordBatch]:
        """The Arrow batches that became full. Raises CorruptRecords and what decompressing
        raises."""
        timestamp_type = batch.timestamp_type
        if timestamp_type is not self._timestamp_type:
            yield from self.finish()
            self._timestamp_type = timestamp_type
        appended = timestamp_type is TimestampType.LOG_APPEND_TIME
        self._decoder.feed(
            batch.decompressed(self.decompressed_bytes_max),
            batch.record_count,
            batch.base_offset,
            batch.base_timestamp,
            batch.max_timestamp if appended else None,
            start_offset,
            end_offset,
        )
        while not self._decoder.fill():
            yield self._take()

    def feed_plain(
        self,
        batches: memoryview,
        position: int,
        next_offset: Offset,
        start_offset: Offset,
        end_offset: Offset,
        check_crc: bool = True,
    ) -> tuple[int, Offset]:
        """Decode, all at once, what needs no decision and fits: batches that are sound, not
        compressed, of no transaction and of the same kind of time as the last one. Returns
        where in `batches` it stopped, and which offset comes next."""
        appended = self._timestamp_type is TimestampType.LOG_APPEND_TIME
        return self._decoder.feed_plain(
            batches,
            position,
            next_offset,
            start_offset,
            end_offset,
            LOG_APPEND_TIME if appended else 0,
            check_crc,
        )

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What is decoded and not handed out yet."""
        if self._decoder.rows:
            yield self._take()

    def _take(self) -> pa.RecordBatch:
        decoded = self._decoder.take()
        arrays = [self._array(name, decoded) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, decoded: Columns) -> pa.Array:
        match name:
            case "key":
                return binary_array(decoded.keys, decoded.rows)
            case "value":
                return binary_array(decoded.values, decoded.rows)
            case "offset":
                return _fixed(pa.int64(), decoded.offsets, decoded.rows)
            case "timestamp":
                return self._timestamps(decoded)
            case "topic":
                return self._constant(name, 0, pa.scalar(self.partition.topic), decoded.rows)
            case "partition":
                value = self.partition.partition
                return self._constant(name, 0, pa.scalar(value, pa.int32()), decoded.rows)
            case "timestampType":
                kind = int(self._timestamp_type)
                return self._constant(name, kind, pa.scalar(kind, pa.int32()), decoded.rows)
        assert name == HEADERS
        assert decoded.headers is not None
        return headers_array(decoded.headers, decoded.rows)

    def _constant(self, name: str, kind: int, value: pa.Scalar, rows: int) -> pa.Array:
        """Made once for full batches, and sliced."""
        array = self._constants.get((name, kind))
        if array is None:
            array = self._constants[name, kind] = pa.repeat(value, self.rows_max)
        return array.slice(0, rows)

    def _timestamps(self, decoded: Columns) -> pa.Array:
        milliseconds = _fixed(pa.timestamp("ms", tz="UTC"), decoded.timestamps, decoded.rows)
        try:
            return milliseconds.cast(TIMESTAMP_TYPE)
        except pa.ArrowInvalid:
            values = milliseconds.cast(pa.int64()).to_pylist()
            row = next(n for n, ms in enumerate(values) if abs(ms) > TIMESTAMP_MS_MAX)
            raise MalformedTimestamp(
                f"a record of partition {self.partition} has the timestamp {values[row]}, which "
                "overflows Spark's microseconds: Kafka's timestamps are in milliseconds, so "
                "its producer may have written microseconds or nanoseconds. Leave the column out "
                "(option `columns`) to read the rest"
            ) from None


def binary_array(
    column: BinaryColumn | None, rows: int, kind: pa.DataType | None = None
) -> pa.Array:
    """The decoder's buffers, as they are."""
    assert column is not None
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind or pa.binary(), rows, buffers, column.null_count)


def headers_array(headers: HeadersColumn, rows: int) -> pa.Array:
    """A list for each row; null, as Spark has it, where a record has no headers."""
    import pyarrow.compute as pc  # takes 70 ms, and few queries want headers

    keys = _utf8(headers.keys, headers.header_count)
    values = binary_array(headers.values, headers.header_count)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    offsets = _fixed(pa.int32(), headers.offsets, rows + 1)
    present = pc.not_equal(offsets.slice(1), offsets.slice(0, rows))
    buffers = [present.buffers()[1], offsets.buffers()[1]]
    return pa.Array.from_buffers(pa.list_(HEADER_TYPE), rows, buffers, children=[pairs])


def _utf8(column: BinaryColumn, rows: int) -> pa.Array:
    """Java's clients read bytes that are no UTF-8 as replacement characters, and so do we."""
    array = binary_array(column, rows, pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        keys = binary_array(column, rows).to_pylist()
        return pa.array([key.decode("utf-8", "replace") for key in keys], pa.string())
    return array


def _fixed(kind: pa.DataType, data: object, rows: int) -> pa.Array:
    assert data is not None
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)
