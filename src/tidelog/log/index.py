"""The two sparse indexes of a segment: offset -> position and timestamp -> offset.

An index lives in memory, as columns that bisect searches. Its file is written when the segment
is sealed, flushed or closed: without a clean shutdown recovery rebuilds the indexes of every
segment that was not flushed, so writing each entry at once would buy nothing.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import le, lt
from typing import NamedTuple, Protocol

from tidelog.env import Disk, File
from tidelog.types import Offset

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
BATCH_OFFSETS = struct.Struct(">q15xi")
"""Of a batch's header: base offset, last offset delta."""

assert array("i").itemsize == 4
assert array("q").itemsize == 8


class Batches(Protocol):
    """The segment that an index is of."""

    base_offset: Offset

    @property
    def file(self) -> File: ...


class OffsetIndex:
    """Relative last offset of a batch -> position of the batch, for a batch every so often."""

    __slots__ = ("entries_max", "last_offsets", "positions", "written")

    def __init__(self, segment_index_bytes: int) -> None:
        self.entries_max = segment_index_bytes // OFFSET_ENTRY.size
        self.last_offsets = array("i")
        """Relative to the segment's base offset."""
        self.positions = array("i")
        self.written = 0
        """So many entries are in the file."""

    def __len__(self) -> int:
        return len(self.last_offsets)

    @property
    def is_full(self) -> bool:
        """Then the segment is rolled."""
        return len(self.last_offsets) >= self.entries_max

    def append(self, relative_offset: int, position: int) -> bool:
        """For the batch that ends with this offset. Whether the index is full then."""
        self.last_offsets.append(relative_offset)
        self.positions.append(position)
        return len(self.last_offsets) >= self.entries_max

    def position_at_or_below(self, relative_offset: int, batches: Batches) -> int:
        """Where to begin to look for an offset."""
        return self._start(bisect_right(self.last_offsets, relative_offset), batches)

    def position_up_to(self, position: int, batches: Batches) -> int:
        """The last known start of a batch that is not above."""
        return self._start(bisect_right(self.positions, position), batches)

    def last_position(self, batches: Batches) -> int:
        """The last known start of a batch."""
        return self._start(len(self.positions), batches)

    def _start(self, count: int, batches: Batches) -> int:
        """By the last of so many entries that the log agrees with. A disk may have damaged the
        file, and by a wrong entry records would be passed over, or taken for damaged."""
        for index in range(count - 1, -1, -1):
            if self.is_right(index, batches):
                return self.positions[index]
        return 0

    def is_right(self, index: int, batches: Batches) -> bool:
        """Whether a batch begins where an entry says, and ends with its offset."""
        header = batches.file.read(self.positions[index], BATCH_OFFSETS.size)
        if len(header) < BATCH_OFFSETS.size:
            return False
        base_offset, last_offset_delta = BATCH_OFFSETS.unpack(header)
        last_offset: int = base_offset + last_offset_delta
        return last_offset - batches.base_offset == self.last_offsets[index]

    def truncate(self, relative_offset: int) -> None:
        """Forget batches that end at or above."""
        count = bisect_left(self.last_offsets, relative_offset)
        del self.last_offsets[count:], self.positions[count:]
        self.written = min(self.written, count)

    def to_bytes(self, start: int = 0) -> bytes:
        """Entries from that index on, as the file holds them."""
        columns = zip(self.last_offsets[start:], self.positions[start:], strict=True)
        return b"".join([OFFSET_ENTRY.pack(*entry) for entry in columns])

    def load(self, content: bytes) -> None:
        """The entries of a file. A padded one ends where its entries stop to rise."""
        columns = _columns(content[: len(content) // 8 * 8])
        last_offsets, positions = columns[::2], columns[1::2]
        count = _rising(last_offsets, positions)
        self.last_offsets, self.positions = last_offsets[:count], positions[:count]
        self.written = count


class TimeEntry(NamedTuple):
    """The greatest timestamp so far, and the last offset of the batch that brought it."""

    timestamp: int
    relative_offset: int


class TimeIndex:
    """Timestamps and relative offsets, both rising."""

    __slots__ = ("entries_max", "offsets", "timestamps", "written")

    def __init__(self, segment_index_bytes: int) -> None:
        self.entries_max = segment_index_bytes // TIME_ENTRY.size
        self.timestamps = array("q")
        self.offsets = array("i")
        self.written = 0

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def is_full(self) -> bool:
        """One slot is kept for the entry that seals the segment."""
        return len(self.timestamps) >= self.entries_max - 1

    def maybe_append(self, timestamp: int, relative_offset: int) -> bool:
        """Only a new maximum gets an entry. Whether the index is full then."""
        timestamps = self.timestamps
        if timestamp >= 0 and not (timestamps and timestamp <= timestamps[-1]):
            timestamps.append(timestamp)
            self.offsets.append(relative_offset)
        return len(timestamps) >= self.entries_max - 1

    def last(self) -> TimeEntry | None:
        """The greatest timestamp that has an entry."""
        return TimeEntry(self.timestamps[-1], self.offsets[-1]) if self.timestamps else None

    def offset_at_or_before(self, timestamp: int) -> int:
        """Up to this relative offset every record is older."""
        index = bisect_right(self.timestamps, timestamp) - 1
        return self.offsets[index] if index >= 0 else 0

    def truncate(self, relative_offset: int) -> None:
        """Forget batches that end at or above."""
        count = bisect_left(self.offsets, relative_offset)
        del self.timestamps[count:], self.offsets[count:]
        self.written = min(self.written, count)

    def to_bytes(self, start: int = 0) -> bytes:
        """Entries from that index on, as the file holds them."""
        columns = zip(self.timestamps[start:], self.offsets[start:], strict=True)
        return b"".join([TIME_ENTRY.pack(*entry) for entry in columns])

    def load(self, content: bytes) -> None:
        """The entries of a file."""
        entries = list(TIME_ENTRY.iter_unpack(content[: len(content) // 12 * 12]))
        timestamps = array("q", [timestamp for timestamp, _ in entries])
        offsets = array("i", [offset for _, offset in entries])
        count = _rising(timestamps, offsets)
        self.timestamps, self.offsets = timestamps[:count], offsets[:count]
        self.written = count


def write_index(disk: Disk, path: str, index: OffsetIndex | TimeIndex) -> File:
    """Make the file say what the index does; returns it, still to be flushed."""
    entry_size = OFFSET_ENTRY.size if isinstance(index, OffsetIndex) else TIME_ENTRY.size
    file = disk.open(path)
    if not index.written and file.size:
        # Made anew after a crash, it mostly goes on where the file ends; cutting it is slow.
        there = file.read(0, file.size)
        index.written = len(there) // entry_size if index.to_bytes().startswith(there) else 0
    kept = min(index.written, len(index), file.size // entry_size)
    if file.size > kept * entry_size:
        file.truncate(kept * entry_size)
    if kept < len(index):
        file.append(index.to_bytes(kept))
    index.written = len(index)
    return file


def _columns(content: bytes) -> array[int]:
    columns = array("i", content)
    if sys.byteorder == "little":
        columns.byteswap()
    return columns


def _rising(first: array[int], second: array[int]) -> int:
    """How many entries, from the first one on, rise in both columns."""
    if not first or first[0] < 0 or second[0] < 0:
        return 0
    if first[0] == 0 and second[0] == 0 and not any(first) and not any(second):
        return 0  # nothing but padding
    if all(map(lt, first, first[1:])) and all(map(le, second, second[1:])):
        return len(first)
    for index in range(1, len(first)):
        if first[index] <= first[index - 1] or second[index] < second[index - 1]:
            return index
    return len(first)
