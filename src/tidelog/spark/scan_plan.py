"""Cuts the segments of a partition into byte ranges that tasks read side by side.

A range begins where a batch does. Where that is, the offset index says, and it is not believed:
each entry that is used has to lead to a sound batch that ends with the entry's offset, or the
segment is walked and its index made anew in memory. And the task that reads up to a cut has to
arrive exactly there (scan_read.py): as the first range of a segment begins at its start, every
cut is proven when all tasks are done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidelog.client import TopicPartition
from tidelog.env import Disk
from tidelog.log.index import OffsetIndex
from tidelog.log.names import LOG, OFFSET_INDEX
from tidelog.log.results import DamagedSegment
from tidelog.log.segment import Segment
from tidelog.log.walk import SegmentWalk, find_sound_batch, is_lost_tail
from tidelog.spark.planner import OffsetRange, range_lost
from tidelog.spark.scan_files import LogFile, ScannedLog
from tidelog.types import Offset
from tidelog.wire import records
from tidelog.wire.batch import HEADER, RecordBatch, read_batch

logger = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1 << 30
"""No index entry is worth reading more to be checked."""


class Boundary(NamedTuple):
    """Here a batch begins, or the segment ends."""

    position: int
    offset: Offset
    """The batch's first; at the end, what would come next."""


class SegmentLayout(NamedTuple):
    """What is sound of a segment, and where it can be cut."""

    file: LogFile
    boundaries: tuple[Boundary, ...]
    """The first is its start, the last its end."""

    @property
    def end(self) -> Boundary:
        return self.boundaries[-1]

    def boundary_before(self, offset: Offset) -> Boundary:
        """From where on the batches that reach this offset lie."""
        below = [b for b in self.boundaries[:-1] if b.offset <= offset]
        return below[-1] if below else self.boundaries[0]


class LogLayout(NamedTuple):
    """All segments that hold something."""

    log: ScannedLog
    segments: tuple[SegmentLayout, ...]

    @property
    def start_offset(self) -> Offset:
        """The first that a reader may ask for."""
        first = self.segments[0].file.base_offset if self.segments else 0
        return max(self.log.log_start_offset, first)

    @property
    def end_offset(self) -> Offset:
        """Behind the last record that is there."""
        last = self.segments[-1].end.offset if self.segments else 0
        return max(self.log.log_start_offset, last)


class ScanRange(NamedTuple):
    """What one task reads of one segment: records of [start_offset, end_offset) in the batches
    between two boundaries."""

    partition: TopicPartition
    file: LogFile
    start: Boundary
    end: Boundary
    start_offset: Offset
    end_offset: Offset

    @property
    def size(self) -> int:
        return self.end.position - self.start.position

    def lost(self, first: Offset, end: Offset) -> OffsetRange | None:
        """What a reader misses of the range where [first, end) cannot be read."""
        first, end = max(first, self.start_offset), min(end, self.end_offset)
        return OffsetRange(self.partition, first, end) if first < end else None


def lay_out(
    disk: Disk,
    log: ScannedLog,
    piece_bytes: int,
    *,
    use_index: bool = True,
    fail_on_data_loss: bool = True,
) -> LogLayout:
    """Find the end of a partition's log, and where its segments can be cut about every
    piece_bytes. A torn tail is left out, as recovery would cut it. Raises DamagedSegment where
    recovery would, unless the caller wants what is left."""
    files = [file for file in log.files(disk) if disk.size(file.path)]
    layouts: list[SegmentLayout] = []
    next_offset = 0
    for index, file in enumerate(files):
        following = files[index + 1] if index + 1 < len(files) else None
        segment = file.open(disk)
        boundaries, walk = _boundaries(segment, next_offset, piece_bytes, use_index)
        is_end = False
        while walk.flaw is not None:
            damage = _damage(segment, walk, following, log.recovery_point)
            is_end = damage is None  # torn by a crash: no segment behind it belongs to the log
            if damage is not None and fail_on_data_loss:
                raise damage
            sound = find_sound_batch(segment, walk.flaw.position, walk.next_offset)
            if sound is None:
                if damage is not None and following is not None:
                    # No task comes here, so that it is said now; of other flaws tasks tell.
                    lost = OffsetRange(log.partition, walk.next_offset, following.base_offset)
                    logger.warning("%s", range_lost(lost, str(damage)).reason)
                break
            walk = _walk_on(segment, Boundary(sound, walk.next_offset), boundaries, piece_bytes)
        segment.close()
        next_offset = walk.next_offset
        if walk.position > boundaries[-1].position:
            boundaries.append(Boundary(walk.position, next_offset))
            layouts.append(SegmentLayout(file, tuple(boundaries)))
        if is_end:
            break
    return LogLayout(log, tuple(layouts))


def walk_from(segment: Segment, start: Boundary) -> SegmentWalk:
    """Over the batches from there on."""
    walk = SegmentWalk(segment, start.offset)
    walk.position = start.position
    return walk


def _boundaries(
    segment: Segment, next_offset_min: Offset, piece_bytes: int, use_index: bool
) -> tuple[list[Boundary], SegmentWalk]:
    """Places to cut at, and a walk that has come to the segment's end or, from its start, to a
    flaw: what lies behind an index entry proves nothing bad of the log."""
    start = Boundary(0, max(next_offset_min, segment.base_offset))
    checked = _checked_entries(segment, piece_bytes) if use_index else None
    if checked:
        boundaries = [start, *checked[:-1]]
        walk = _walk_on(segment, checked[-1], boundaries, piece_bytes)
        if walk.flaw is None:
            return boundaries, walk
    boundaries = [start]
    return boundaries, _walk_on(segment, start, boundaries, piece_bytes)


def _walk_on(
    segment: Segment, start: Boundary, boundaries: list[Boundary], piece_bytes: int
) -> SegmentWalk:
    """Walk from start to the end or a flaw, and add places to cut at."""
    walk = walk_from(segment, start)
    for position, batch in walk:
        if position - boundaries[-1].position >= piece_bytes:
            boundaries.append(Boundary(position, batch.base_offset))
        # Over those before the next cut, as far as they have been read.
        cut = boundaries[-1].position + piece_bytes - (position - batch.position)
        before = batch.buffer[: max(0, cut)]
        walk.skip(*records.skip_batches(before, batch.end_position, batch.next_offset, 0, True))
    return walk


def _checked_entries(segment: Segment, piece_bytes: int) -> list[Boundary] | None:
    """Entries of the index file, one for every piece and the last one, each of which leads to a
    batch. None if any does not: then none counts."""
    index = OffsetIndex(segment.config.segment_index_bytes)
    index.load(segment.disk.read_file(segment.path(OFFSET_INDEX)) or b"")
    checked: list[Boundary] = []
    last_offset = -1
    for entry in _every(index, piece_bytes):
        batch = sound_batch_at(segment, index.positions[entry])
        wanted = segment.base_offset + index.last_offsets[entry]
        if batch is None or batch.last_offset != wanted or batch.base_offset <= last_offset:
            return None
        checked.append(Boundary(index.positions[entry], batch.base_offset))
        last_offset = batch.last_offset
    return checked


def _every(index: OffsetIndex, piece_bytes: int) -> Iterator[int]:
    """The entries to look at; the last one always."""
    cut = 0
    for entry, position in enumerate(index.positions):
        if entry == len(index) - 1:
            yield entry
        elif position - cut >= piece_bytes:
            cut = position
            yield entry


def sound_batch_at(segment: Segment, position: int) -> RecordBatch | None:
    """The sound batch that begins there, if one does."""
    if position + HEADER.size > segment.size:
        return None
    header = segment.file.read(position, HEADER.size)
    size = RecordBatch(memoryview(header), 0, *HEADER.unpack(header)).size
    if not HEADER.size <= size <= min(BATCH_BYTES_MAX, segment.size - position):
        return None
    view = memoryview(segment.file.read(position, size))
    batch = read_batch(view, 0, len(view))
    if isinstance(batch, RecordBatch) and batch.last_offset_delta >= 0 and batch.crc_is_right():
        return batch
    return None


def _damage(
    segment: Segment, walk: SegmentWalk, following: LogFile | None, recovery_point: Offset
) -> DamagedSegment | None:
    """None if the flaw is the torn end of the log; recovery decides in the same way."""
    flaw = walk.flaw
    assert flaw is not None
    sound = find_sound_batch(segment, flaw.position, walk.next_offset)
    if sound is not None:
        why = f"{flaw.kind.value}, and a sound batch follows at position {sound}"
    elif following is None or (walk.next_offset >= recovery_point and is_lost_tail(segment, flaw)):
        return None
    else:
        why = f"{flaw.kind.value}, and {following.path} follows"
    return DamagedSegment(segment.path(LOG), flaw.position, why)


def ranges_of(layout: LogLayout, wanted: OffsetRange) -> Iterator[ScanRange]:
    """What holds records of a range, piece by piece."""
    partition, start_offset, end_offset = wanted
    for segment in layout.segments:
        pairs = zip(segment.boundaries, segment.boundaries[1:], strict=False)
        for start, end in pairs:
            if start.offset < end_offset and end.offset > start_offset:
                yield ScanRange(partition, segment.file, start, end, start_offset, end_offset)


def group_small(ranges: Iterable[ScanRange], bytes_max: int) -> Iterator[tuple[ScanRange, ...]]:
    """For each task its ranges: those of many small partitions together."""
    group: list[ScanRange] = []
    held = 0
    for piece in ranges:
        if group and held + piece.size > bytes_max:
            yield tuple(group)
            group, held = [], 0
        group.append(piece)
        held += piece.size
    if group:
        yield tuple(group)
