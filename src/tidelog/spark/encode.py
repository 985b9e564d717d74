"""Arrow columns become record batches: the compiled module chooses partitions and encodes, and
nothing here touches a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.client import TopicPartition
from tidelog.wire import records
from tidelog.wire.batch import HEADER
from tidelog.wire.batch_builder import finish_batch
from tidelog.wire.compression import Compression
from tidelog.wire.records_types import (
    BinaryColumn,
    Columns,
    HeadersColumn,
    IntColumn,
    Placement,
    RowGroup,
)

KEY, VALUE, HEADERS, TOPIC, PARTITION = "key", "value", "headers", "topic", "partition"
SINK_COLUMNS = (KEY, VALUE, HEADERS, TOPIC, PARTITION)


class UnwritableRow(ValueError):
    """A row that no retry will make a record."""


class NoSuchPartition(UnwritableRow):
    """A row chose a partition that its topic does not have, as far as is known."""

    def __init__(self, topic: str, partition: int, partition_count: int) -> None:
        has = f"partitions 0 to {partition_count - 1}" if partition_count > 1 else "partition 0"
        super().__init__(
            f"a row has partition {partition}, but topic {topic} has {has}; leave the column "
            "`partition` null to let the key decide"
        )
        self.topic = topic
        self.partition = partition


class RecordTooLarge(UnwritableRow):
    """A record beyond max.request.size."""

    def __init__(self, partition: TopicPartition, size: int, request_bytes_max: int) -> None:
        super().__init__(
            f"a record for {partition} takes {size} bytes, more than kafka.max.request.size "
            f"allows, which is {request_bytes_max}; raise it, and max.message.bytes of the topic"
        )


class TopicRows(NamedTuple):
    """Rows, and which of the topics each belongs to."""

    rows: pa.RecordBatch
    topics: tuple[str, ...]
    codes: memoryview | None
    """Native int32 indexes of topics; None: all belong to the only one."""


class EncodedBatch(NamedTuple):
    """A record batch for a partition."""

    partition: TopicPartition
    batch: bytearray
    record_count: int


class BatchEncoder:
    """Encodes rows into batches of at most `batch_bytes` of records, or of one larger row."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        request_bytes_max: int,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        ignore_keys: bool = False,
        is_stamped_later: bool = False,
    ) -> None:
        self.batch_bytes = max(1, min(batch_bytes, request_bytes_max - HEADER.size))
        self.request_bytes_max = request_bytes_max
        self.compression = compression
        self.compression_level = compression_level
        self.ignore_keys = ignore_keys
        self.is_stamped_later = is_stamped_later
        """An idempotent producer writes the checksum, so it is not computed twice."""

    def encode(
        self,
        given: TopicRows,
        placements: Mapping[str, Placement],
        timestamp_ms: int,
        batch_bytes_of: Callable[[str], int | None] = lambda topic: None,
    ) -> Iterator[EncodedBatch]:
        """The rows' batches; batch_bytes_of tells of topics that take smaller ones only. Raises
        UnwritableRow; a NoSuchPartition comes before the first batch."""
        if not given.rows.num_rows:
            return
        columns = columns_of(given.rows)
        choosing = columns._replace(keys=None) if self.ignore_keys else columns
        chosen = _chosen(given.rows)
        places = [placements[topic] for topic in given.topics]
        assigned = records.assign_rows(choosing, chosen, given.codes, places)
        if assigned.bad_row >= 0:
            raise _no_such_partition(given, assigned.bad_row, places)
        order = memoryview(assigned.order)
        for group in assigned.groups:
            topic = given.topics[group.topic]
            limit = min(batch_bytes_of(topic) or self.batch_bytes, self.batch_bytes)
            yield from self._encode_group(
                columns, order, group, TopicPartition(topic, group.partition), timestamp_ms, limit
            )

    def _encode_group(
        self,
        columns: Columns,
        order: memoryview,
        group: RowGroup,
        partition: TopicPartition,
        timestamp_ms: int,
        records_bytes_max: int,
    ) -> Iterator[EncodedBatch]:
        rows = order[group.start * 4 : group.end * 4]
        at, end = 0, group.end - group.start
        while at < end:
            try:
                encoded = records.encode_records(
                    columns, at, records_bytes_max, timestamp_ms, rows, HEADER.size
                )
            except ValueError as error:
                raise UnwritableRow(f"for topic {partition.topic}: {error}") from None
            size = len(encoded.records)
            if size > self.request_bytes_max:
                raise RecordTooLarge(partition, size, self.request_bytes_max)
            count = encoded.end_row - at
            batch = finish_batch(
                encoded,
                count,
                compression=self.compression,
                compression_level=self.compression_level,
                is_stamped_later=self.is_stamped_later,
            )
            yield EncodedBatch(partition, batch, count)
            at = encoded.end_row


def topics_of(rows: pa.RecordBatch, topic: str | None) -> TopicRows:
    """Which topics the rows belong to: the one that is given, or what their column says."""
    if topic is not None:
        return TopicRows(rows, (topic,), None)
    coded = rows.column(TOPIC).dictionary_encode()
    if coded.null_count:
        raise UnwritableRow(
            "null topic present in the data: fill the column `topic`, or use the option topic "
            "for all rows"
        )
    codes = coded.indices.cast(pa.int32())
    return TopicRows(rows, tuple(coded.dictionary.to_pylist()), _fixed(codes))


def columns_of(rows: pa.RecordBatch) -> Columns:
    """The buffers of key, value and headers, as they are."""
    return Columns(
        rows.num_rows,
        None,
        None,
        _binary(rows, KEY),
        _binary(rows, VALUE),
        _headers(rows),
    )


def _binary(rows: pa.RecordBatch, name: str) -> BinaryColumn | None:
    array = _column(rows, name)
    return None if array is None else binary_column(array)


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def binary_column(array: pa.Array) -> BinaryColumn:
    """Of text or bytes; Spark sends large ones only if it is told to."""
    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        array = array.cast(pa.binary())
    validity, offsets, data = array.buffers()
    return BinaryColumn(
        memoryview(offsets)[array.offset * 4 :],
        b"" if data is None else data,
        validity if array.null_count else None,
        array.null_count,
        array.offset,
    )


def _headers(rows: pa.RecordBatch) -> HeadersColumn | None:
    array = _column(rows, HEADERS)
    if array is None or array.null_count == len(array):
        return None
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    # What lies under a null list is left out, so the offsets are counted anew.
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    pairs = array.flatten()
    keys, values = pairs.flatten()
    count = len(pairs)
    return HeadersColumn(_fixed(offsets), count, _flat(keys, count), _flat(values, count))


def _flat(array: pa.Array, count: int) -> BinaryColumn:
    return binary_column(array) if count else BinaryColumn(bytes(4), b"", None, 0)


def _chosen(rows: pa.RecordBatch) -> IntColumn | None:
    array = _column(rows, PARTITION)
    if array is None or array.null_count == len(array):
        return None
    validity = array.buffers()[0] if array.null_count else None
    return IntColumn(_fixed(array), validity, array.offset)


def _fixed(array: pa.Array) -> memoryview:
    """The values of an int32 array."""
    assert array.type == pa.int32(), array.type
    return memoryview(array.buffers()[1])[array.offset * 4 :]


def _no_such_partition(
    given: TopicRows, row: int, placements: Sequence[Placement]
) -> NoSuchPartition:
    code = 0 if given.codes is None else given.codes.cast("B").cast("i")[row]
    partition = given.rows.column(PARTITION)[row].as_py()
    return NoSuchPartition(given.topics[code], partition, placements[code].partition_count)
