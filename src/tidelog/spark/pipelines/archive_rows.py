"""Writes the rows of one offset range into a Parquet file, and says what it has written. Runs in
Spark's tasks; a task that is tried again, or twice at once, writes a file of its own each time.
"""

from __future__ import annotations

import contextlib
import os
import struct
import uuid
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.spark.pipelines.archive_commit import ArchivedRange
from tidelog.spark.planner import OffsetRange
from tidelog.spark.range_reader import read_range
from tidelog.spark.schema import SPARK_TYPES, arrow_schema
from tidelog.spark.source_options import SourceOptions
from tidelog.wire import records

COLUMNS = tuple(SPARK_TYPES)
"""All there are: an archive is to be restored from."""
ROW_GROUP_ROWS = 256 * 1024
ROW_GROUP_BYTES = 64 << 20
"""A row group ends with whichever comes first; it is what a task holds in memory."""
SUFFIX = ".parquet"


class ArchiveTask(NamedTuple):
    """What a task is given."""

    wanted: OffsetRange
    options: SourceOptions
    directory: str
    """To be written to; the driver has made it, and removes it if the batch fails."""
    name: str
    """Of the file; the task adds what makes it unique."""
    compression: str


class RowsDigest:
    """A checksum of rows in their order, however they are cut into batches: read back from the
    file or fetched again from a broker, equal rows have an equal one."""

    def __init__(self) -> None:
        self.rows = 0
        self._crcs: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Of the columns COLUMNS."""
        parts = [part for name in COLUMNS for part in _parts(batch.column(name))]
        if not self._crcs:
            self._crcs = [0] * len(parts)
        self._crcs = [
            records.crc32c(part, crc) for part, crc in zip(parts, self._crcs, strict=True)
        ]
        self.rows += batch.num_rows

    def text(self) -> str:
        """Eight hexadecimal digits."""
        body = struct.pack(f">q{len(self._crcs)}I", self.rows, *self._crcs)
        return f"{records.crc32c(body):08x}"


def _parts(array: pa.Array) -> Iterator[memoryview]:
    """The bytes of a column's rows: what follows from them alone, not from how they lie."""
    if pa.types.is_list(array.type):
        yield _fixed(pc.list_value_length(array).fill_null(-1))
        pairs = array.flatten()
        for field in range(array.type.value_type.num_fields):
            yield from _parts(pc.struct_field(pairs, field))
    elif pa.types.is_binary(array.type) or pa.types.is_string(array.type):
        yield _fixed(pc.binary_length(array).fill_null(-1))
        _, offsets, data = array.buffers()
        bounds = memoryview(offsets).cast("B").cast("i") if offsets else memoryview(b"\0" * 4)
        if len(array) and data is not None:
            yield memoryview(data)[bounds[array.offset] : bounds[array.offset + len(array)]]
        else:
            yield memoryview(b"")
    else:
        yield _fixed(array)


def _fixed(array: pa.Array) -> memoryview:
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    if data is None:
        return memoryview(b"")
    start = array.offset * width
    return memoryview(data)[start : start + len(array) * width]


def archive_range(task: ArchiveTask) -> ArchivedRange:
    """Read a range from the brokers and write it; durable when this returns."""
    path = f"{task.directory}/{task.name}-{uuid.uuid4().hex[:12]}{SUFFIX}"
    try:
        return write_rows(
            path, task.wanted, read_range(task.wanted, task.options), task.compression
        )
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        raise


def write_rows(
    path: str, wanted: OffsetRange, batches: Iterable[pa.RecordBatch], compression: str
) -> ArchivedRange:
    """The file exists only if there are rows."""
    digest = RowsDigest()
    first_offset = last_offset = -1
    partition, start_offset, end_offset = wanted
    metadata = {
        "tidelog.range": f"{partition.topic} {partition.partition} {start_offset} {end_offset}"
    }
    schema = arrow_schema(COLUMNS).with_metadata(metadata)
    with contextlib.ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for group in _groups(batches):
            for batch in group:
                digest.add(batch)
            offsets = [group[0].column("offset")[0].as_py(), group[-1].column("offset")[-1].as_py()]
            if writer is None:
                first_offset = offsets[0]
                writer = stack.enter_context(
                    pq.ParquetWriter(path, schema, compression=compression)
                )
            last_offset = offsets[1]
            writer.write_table(
                pa.Table.from_batches(group, schema=arrow_schema(COLUMNS)).cast(schema),
                row_group_size=ROW_GROUP_ROWS,
            )
    assert start_offset <= first_offset <= last_offset < end_offset or not digest.rows
    name, size = "", 0
    if digest.rows:
        name, size = os.path.basename(path), _make_durable(path)  # noqa: PTH119
    return ArchivedRange(
        partition.topic,
        partition.partition,
        start_offset,
        end_offset,
        digest.rows,
        first_offset,
        last_offset,
        name,
        size,
        digest.text(),
    )


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches for a row group; none is empty."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def _make_durable(path: str) -> int:
    """Returns the file's size."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)
