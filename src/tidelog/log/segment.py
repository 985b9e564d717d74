"""A segment: one file of record batches, and the indexes by which they are found."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Disk, File
from tidelog.log.config import LogConfig
from tidelog.log.index import OffsetIndex, TimeIndex, write_index
from tidelog.log.names import INDEXES, LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from tidelog.log.results import DamagedSegment
from tidelog.log.txn_index import AbortedTransaction, read_entries, write_txn_index
from tidelog.types import Offset
from tidelog.wire.batch import HEADER, LENGTH_END, NO_TIMESTAMP, BatchFlaw, RecordBatch, read_batch

if TYPE_CHECKING:
    from typing_extensions import Buffer

RELATIVE_OFFSET_MAX = (1 << 31) - 1
RECENT_BATCHES_MAX = 256
"""Of so many last batches the position is known without reading: consumers are mostly there."""
SCAN_BYTES = 16 * 1024
"""Read at once while walking over batch headers."""

_LENGTH = struct.Struct(">i")
_PLACE = struct.Struct(">qi11xi")
"""Base offset, length, last offset delta: what finding a batch needs of its header."""


class BatchPlace(NamedTuple):
    """Where a batch lies in its segment."""

    base_offset: Offset
    last_offset: Offset
    position: int
    end_position: int


class Segment:
    """Batches from base_offset on. The log alone appends to it, and only to its last one."""

    __slots__ = (
        "_aborted",
        "_file",
        "_offset_index",
        "_time_index",
        "_txn_written",
        "base_offset",
        "bytes_since_index_entry",
        "config",
        "created_ms",
        "directory",
        "disk",
        "first_timestamp",
        "is_full",
        "max_timestamp",
        "max_timestamp_offset",
        "recent_last_offsets",
        "recent_positions",
        "roll_jitter_ms",
        "size",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: Offset, config: LogConfig) -> None:
        self.disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.size = disk.size(self.path(LOG)) or 0
        self.created_ms = 0
        self.roll_jitter_ms = 0
        self.first_timestamp: int | None = None
        """The max timestamp of the first batch; None until it is needed."""
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        """The last offset of the batch that first reached it."""
        self.bytes_since_index_entry = 0
        self.is_full = False
        """An index has no room."""
        self.recent_last_offsets = array("q")
        self.recent_positions = array("q")
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._aborted: list[AbortedTransaction] | None = None
        self._txn_written = 0

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG)!r})"

    def path(self, kind: str) -> str:
        """Of one of its files."""
        return f"{self.directory}/{file_name(self.base_offset, kind)}"

    @property
    def file(self) -> File:
        """The batches; opened when first needed."""
        if self._file is None:
            self._file = self.disk.open(self.path(LOG))
        return self._file

    @property
    def offset_index(self) -> OffsetIndex:
        """Loaded when first needed."""
        if self._offset_index is None:
            self._offset_index = OffsetIndex(self.config.segment_index_bytes)
            self._offset_index.load(self.disk.read_file(self.path(OFFSET_INDEX)) or b"")
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """Loaded when first needed."""
        if self._time_index is None:
            self._time_index = TimeIndex(self.config.segment_index_bytes)
            self._time_index.load(self.disk.read_file(self.path(TIME_INDEX)) or b"")
        return self._time_index

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Transactions whose abort marker lies here; loaded when first needed."""
        if self._aborted is None:
            content = self.disk.read_file(self.path(TXN_INDEX)) or b""
            self._aborted = read_entries(content, self.base_offset) or []
            self._txn_written = len(self._aborted)
        return self._aborted

    def start(self, wall_ms: int, roll_jitter_ms: int) -> None:
        """Begin it: an empty file, empty indexes."""
        self.reset_indexes()
        self.created_ms = wall_ms
        self.roll_jitter_ms = roll_jitter_ms
        self._file = self.disk.open(self.path(LOG))
        assert self._file.size == self.size

    def reset_indexes(self) -> None:
        """As if nothing were known about the batches; recovery adds them again."""
        self._offset_index = OffsetIndex(self.config.segment_index_bytes)
        self._time_index = TimeIndex(self.config.segment_index_bytes)
        self._aborted = []
        self._txn_written = 0
        self.first_timestamp = None
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.bytes_since_index_entry = 0
        self._forget_recent()
        self.look_for_room()

    def _forget_recent(self) -> None:
        self.recent_last_offsets = array("q")
        self.recent_positions = array("q")

    def look_for_room(self) -> None:
        """In the indexes."""
        self.is_full = self.offset_index.is_full or self.time_index.is_full

    def append(self, data: Buffer, size: int, last_offset: Offset, max_timestamp: int) -> None:
        """One batch."""
        position = self.size
        assert self._file is not None
        self._file.append(data)
        self.size = position + size
        self.add(position, size, last_offset, max_timestamp)

    def append_chunk(self, data: memoryview, batches: list[RecordBatch]) -> None:
        """Several batches that lie one after the other, in one write."""
        position = self.size
        assert self._file is not None
        self._file.append(data)
        self.size = position + len(data)
        for batch in batches:
            size = batch.size
            self.add(position, size, batch.last_offset, batch.max_timestamp)
            position += size
        assert position == self.size

    def add(self, position: int, size: int, last_offset: Offset, max_timestamp: int) -> None:
        """A batch lies at position, after all that were added before: index it."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp = max_timestamp
        if self.bytes_since_index_entry > self.config.index_interval_bytes:
            by_offset, by_time = self.offset_index, self.time_index
            is_full = by_offset.append(last_offset - self.base_offset, position)
            relative_offset = self.max_timestamp_offset - self.base_offset
            self.is_full = by_time.maybe_append(self.max_timestamp, relative_offset) or is_full
            self.bytes_since_index_entry = size
        else:
            self.bytes_since_index_entry += size
        recent = self.recent_last_offsets
        recent.append(last_offset)
        self.recent_positions.append(position)
        if len(recent) > RECENT_BATCHES_MAX:
            half = RECENT_BATCHES_MAX // 2
            del recent[:half], self.recent_positions[:half]

    def index_time(self) -> None:
        """The greatest timestamp so far gets an entry, though no batch is to follow."""
        relative_offset = self.max_timestamp_offset - self.base_offset
        self.time_index.maybe_append(self.max_timestamp, relative_offset)

    def add_aborted(self, entry: AbortedTransaction) -> None:
        """An abort marker was appended."""
        self.aborted.append(entry)

    def has_room(self, size: int, last_offset: Offset, max_timestamp: int, wall_ms: int) -> bool:
        """Whether batches may be appended here; else a new segment is begun."""
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return False
        held, config = self.size, self.config
        if held == 0:
            return True
        if held > config.segment_bytes - size or self.is_full:
            return False
        first = self.first_timestamp or -1
        waited = max_timestamp - first if first > 0 else self.time_waited_ms(max_timestamp, wall_ms)
        return waited <= config.segment_age_ms_max - self.roll_jitter_ms

    def has_room_behind(
        self, count: int, size: int, last_offset: Offset, max_timestamp: int, wall_ms: int
    ) -> bool:
        """For one in one write with count others: a follower rolls where its leader did, which
        decided batch by batch."""
        by_offset, by_time = self.offset_index, self.time_index
        left = by_offset.entries_max - len(by_offset)
        entries_left = min(left, by_time.entries_max - 1 - len(by_time))
        if self.size == 0 or entries_left <= count:
            return False
        return self.has_room(size, last_offset, max_timestamp, wall_ms)

    def time_waited_ms(self, max_timestamp: int, wall_ms: int) -> int:
        """How much older than the next batch its first one is: by record time, if it has one."""
        if self.first_timestamp is None:
            first = self.batch_at(0) if self.size else None
            self.first_timestamp = first.max_timestamp if first else NO_TIMESTAMP
        if self.first_timestamp >= 0:
            return max_timestamp - self.first_timestamp
        return wall_ms - self.created_ms

    @property
    def largest_timestamp(self) -> int:
        """Of its records; where none has one, the time of the last write to the file."""
        if self.max_timestamp == NO_TIMESTAMP:
            last = self.time_index.last()
            if last is not None:
                self.max_timestamp = last.timestamp
                self.max_timestamp_offset = self.base_offset + last.relative_offset
        if self.max_timestamp >= 0 or self.size == 0:
            return self.max_timestamp
        return self.disk.modified_ms(self.path(LOG))

    def locate(self, offset: Offset) -> int:
        """Where the first batch begins whose last offset is not below; size if there is none."""
        recent = self.recent_last_offsets
        if recent and offset >= recent[0]:
            index = bisect_left(recent, offset)
            return self.recent_positions[index] if index < len(recent) else self.size
        start = self.offset_index.position_at_or_below(offset - self.base_offset, self)
        for place in self.places(start):
            if place.last_offset >= offset:
                return place.position
        return self.size

    def places(self, position: int = 0) -> Iterator[BatchPlace]:
        """The batches from that position on, by their headers alone. Raises DamagedSegment."""
        for at, chunk, start in self._walk(position):
            base_offset, length, last_offset_delta = _PLACE.unpack_from(chunk, start)
            end = at + LENGTH_END + length
            yield BatchPlace(base_offset, base_offset + last_offset_delta, at, end)

    def headers(self, position: int = 0) -> Iterator[tuple[int, RecordBatch]]:
        """The same with all that the headers say; their buffers do not hold the records."""
        for at, chunk, start in self._walk(position):
            yield at, RecordBatch(memoryview(chunk), start, *HEADER.unpack_from(chunk, start))

    def _walk(self, position: int) -> Iterator[tuple[int, bytes, int]]:
        """Position of a batch, bytes that hold its header, and where in them."""
        size, file = self.size, self.file
        chunk, chunk_start = b"", 0
        while position < size:
            at = position - chunk_start
            if at + HEADER.size > len(chunk):
                chunk, chunk_start, at = file.read(position, SCAN_BYTES), position, 0
                if len(chunk) < HEADER.size:
                    raise DamagedSegment(self.path(LOG), position, "the file ends in a batch")
            (length,) = _LENGTH.unpack_from(chunk, at + 8)
            if length < HEADER.size - LENGTH_END or position + LENGTH_END + length > size:
                why = f"a batch of {length} bytes does not fit"
                raise DamagedSegment(self.path(LOG), position, why)
            yield position, chunk, at
            position += LENGTH_END + length

    def batch_at(self, position: int) -> RecordBatch:
        """The whole batch that begins there. Raises DamagedSegment."""
        end = self.batch_end(position)
        view = memoryview(self.file.read(position, end - position))
        batch = read_batch(view, 0, len(view))
        if isinstance(batch, BatchFlaw):
            raise DamagedSegment(self.path(LOG), position, batch.kind.value)
        return batch

    def batch_end(self, position: int) -> int:
        """Where the batch ends that begins at position."""
        recent = self.recent_positions
        if recent and position >= recent[0]:
            index = bisect_right(recent, position)
            return recent[index] if index < len(recent) else self.size
        return next(self.places(position)).end_position

    def boundary_below(self, position: int, limit: int) -> int:
        """The last start or end of a batch up to limit, from the batch at position on."""
        recent = self.recent_positions
        if recent and limit >= recent[0]:
            return recent[bisect_right(recent, limit) - 1]
        boundary = max(position, self.offset_index.position_up_to(limit, self))
        for place in self.places(boundary):
            if place.end_position > limit:
                break
            boundary = place.end_position
        return boundary

    def truncate(self, offset: Offset) -> None:
        """Cut off the batch that holds the offset, and all after it."""
        self.size = self.locate(offset)
        self.file.truncate(self.size)
        self.offset_index.truncate(offset - self.base_offset)
        self.time_index.truncate(offset - self.base_offset)
        kept = [entry for entry in self.aborted if entry.last_offset < offset]
        self._txn_written = min(self._txn_written, len(kept))
        self._aborted = kept
        self.load_tail()

    def load_tail(self) -> Offset:
        """Read the headers behind the last index entry: the end of what is known by indexes.
        Returns the offset after the last batch."""
        self._forget_recent()
        self.first_timestamp = None
        last_time = self.time_index.last()
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        if last_time is not None:
            self.max_timestamp = last_time.timestamp
            self.max_timestamp_offset = self.base_offset + last_time.relative_offset
        start = self.offset_index.last_position(self)
        next_offset = self.base_offset
        for position, header in self.headers(start):
            self.recent_last_offsets.append(header.last_offset)
            self.recent_positions.append(position)
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
            next_offset = header.next_offset
        self.bytes_since_index_entry = self.size - start
        self.look_for_room()
        return next_offset

    def write_indexes(self) -> list[File]:
        """Bring the index files up to date; returns what is to be flushed."""
        files = []
        if self._offset_index is not None:
            files.append(write_index(self.disk, self.path(OFFSET_INDEX), self._offset_index))
        if self._time_index is not None:
            files.append(write_index(self.disk, self.path(TIME_INDEX), self._time_index))
        if self._aborted is not None and (self._aborted or self.disk.exists(self.path(TXN_INDEX))):
            path, aborted = self.path(TXN_INDEX), self._aborted
            files.append(write_txn_index(self.disk, path, aborted, self._txn_written))
            self._txn_written = len(aborted)
        return files

    @property
    def is_written(self) -> bool:
        """Whether the index files say all that is known."""
        indexes = (self._offset_index, self._time_index)
        return all(index is None or index.written == len(index) for index in indexes)

    def rename_files(self, suffix: str) -> list[str]:
        """Give every file of it a suffix; returns the new paths."""
        renamed = []
        for kind in (LOG, *INDEXES):
            path = self.path(kind)
            if self.disk.exists(path):
                self.disk.rename(path, path + suffix)
                renamed.append(path + suffix)
        return renamed

    def let_go(self) -> None:
        """Forget the open file and the indexes, of which the files tell. Slices keep theirs."""
        self._file = None
        self._offset_index = self._time_index = self._aborted = None
        self._forget_recent()

    def close(self) -> None:
        """Free the descriptor."""
        if self._file is not None:
            self._file.close()
        self._file = None
