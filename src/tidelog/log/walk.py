"""Walks over the batches of a whole segment and checks them; finds out what follows a bad one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from tidelog.log.results import CorruptBatch
from tidelog.log.segment import RECENT_BATCHES_MAX, RELATIVE_OFFSET_MAX, Segment
from tidelog.types import Offset
from tidelog.wire import records
from tidelog.wire.batch import (
    HEADER,
    MAGIC,
    BatchFlaw,
    BatchWalk,
    FlawKind,
    RecordBatch,
    read_batch,
)
from tidelog.wire.records_batches_types import BatchRun, RunState

BATCHES_MAX = 1 << 16
"""Of one answer that are looked at in one go: more than fit into a usual one."""
READ_BYTES = 1 << 20
"""Read at once; more where a batch is larger."""
SECTOR_BYTES = 512
"""What a disk writes whole or not at all."""

_MAGIC_AT = 16


class SegmentWalk:
    """Like BatchWalk over a file that need not fit into memory: batches with their positions,
    up to the first flaw. Afterwards position is the end of what is sound."""

    def __init__(self, segment: Segment, next_offset_min: Offset) -> None:
        self.position = 0
        self.next_offset = max(next_offset_min, segment.base_offset)
        self.flaw: BatchFlaw | None = None
        self._segment = segment
        self._chunk_position = 0
        self._walk: BatchWalk | None = None
        """Over the chunk that was read last."""

    def __iter__(self) -> Iterator[tuple[int, RecordBatch]]:
        segment, wanted = self._segment, READ_BYTES
        while self.position < segment.size and self.flaw is None:
            start = self.position
            chunk = segment.file.read(start, wanted)
            walk = self._walk = BatchWalk(chunk, next_offset_min=self.next_offset)
            self._chunk_position = start
            for batch in walk:
                if batch.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                    self.flaw = BatchFlaw(FlawKind.BAD_OFFSETS, start + batch.position)
                    return
                self.position = start + walk.position
                self.next_offset = batch.next_offset
                yield start + batch.position, batch
            wanted = READ_BYTES
            if walk.flaw is None:
                continue
            if walk.flaw.kind is FlawKind.INCOMPLETE and start + len(chunk) < segment.size:
                if walk.position == 0:
                    wanted = min(2 * len(chunk), segment.size - start)
                continue
            self.flaw = BatchFlaw(walk.flaw.kind, self.position)

    def skip(self, position: int, next_offset: Offset) -> None:
        """The caller has looked at the batches up to this position in the last one's buffer, and
        they were sound; so the walk goes on from there."""
        assert self._walk is not None
        if next_offset - 1 - self._segment.base_offset > RELATIVE_OFFSET_MAX:
            return  # one by one, then, up to the flaw
        self._walk.position, self._walk.next_offset = position, next_offset
        self.position, self.next_offset = self._chunk_position + position, next_offset


def sound_batches(
    batches: memoryview, next_offset_min: Offset, leader_epoch_max: int
) -> list[RecordBatch]:
    """Those of a leader's answer that a follower may append (`Log.append_as_follower`)."""
    found = records.read_batches(RecordBatch, batches, 0, next_offset_min, True, BATCHES_MAX)
    if found and found[-1].end_position == len(batches):  # the usual case
        for batch in found:
            if batch.partition_leader_epoch > leader_epoch_max:
                break
        else:
            return found
    walk = BatchWalk(batches, next_offset_min=next_offset_min)
    whole = list(takewhile(lambda b: b.partition_leader_epoch <= leader_epoch_max, walk))
    if walk.flaw is not None and walk.flaw.kind is not FlawKind.INCOMPLETE:
        raise CorruptBatch(walk.flaw.kind, walk.next_offset - 1)
    return whole


def fit_together(segment: Segment, batches: list[RecordBatch], wall_ms: int) -> bool:
    """Whether a segment has room for all of them; if not, it may have for some."""
    if len(batches) == 1:
        return True
    last, count = batches[-1], len(batches) - 1
    newest = max([batch.max_timestamp for batch in batches])
    return segment.has_room_behind(count, last.end_position, last.last_offset, newest, wall_ms)


def run_state(segment: Segment, leader_epoch: int) -> RunState:
    """What `Segment.add` has come to so far."""
    greatest = segment.max_timestamp, segment.max_timestamp_offset
    return RunState(segment.bytes_since_index_entry, *greatest, leader_epoch)


def add_run(segment: Segment, run: BatchRun, origin: int) -> None:
    """As `Segment.add` for each batch, whose positions count from origin; not for the first."""
    for entry in run.entries:
        segment.max_timestamp = entry.max_timestamp
        segment.max_timestamp_offset = entry.max_timestamp_offset
        relative_offset = entry.last_offset - segment.base_offset
        segment.offset_index.append(relative_offset, origin + entry.position)
        segment.index_time()
    segment.bytes_since_index_entry = run.state.unindexed_bytes
    segment.max_timestamp = run.state.max_timestamp
    segment.max_timestamp_offset = run.state.max_timestamp_offset
    segment.look_for_room()
    segment.recent_last_offsets.extend([last_offset for last_offset, _ in run.recent])
    segment.recent_positions.extend([origin + position for _, position in run.recent])
    del segment.recent_last_offsets[:-RECENT_BATCHES_MAX]
    del segment.recent_positions[:-RECENT_BATCHES_MAX]


def find_sound_batch(segment: Segment, position: int, next_offset_min: Offset) -> int | None:
    """Where behind position a sound batch begins that could belong to this log; None if there
    is none. Then what is there is a torn tail."""
    while position + HEADER.size <= segment.size:
        chunk = segment.file.read(position, READ_BYTES)
        at = chunk.find(MAGIC, _MAGIC_AT)
        while at >= 0:
            start = position + at - _MAGIC_AT
            if _is_sound(segment, start, next_offset_min):
                return start
            at = chunk.find(MAGIC, at + 1)
        if len(chunk) < READ_BYTES:
            return None
        position += len(chunk) - _MAGIC_AT
    return None


def _is_sound(segment: Segment, position: int, next_offset_min: Offset) -> bool:
    header = segment.file.read(position, HEADER.size)
    if len(header) < HEADER.size:
        return False
    batch = RecordBatch(memoryview(header), 0, *HEADER.unpack(header))
    if batch.size < HEADER.size or batch.attributes & ~0x7F or batch.last_offset_delta < 0:
        return False
    if not next_offset_min <= batch.base_offset <= segment.base_offset + RELATIVE_OFFSET_MAX:
        return False
    if position + batch.size > segment.size:
        return False
    view = memoryview(segment.file.read(position, batch.size))
    whole = read_batch(view, 0, len(view))
    return isinstance(whole, RecordBatch) and whole.crc_is_right()


def is_lost_tail(segment: Segment, flaw: BatchFlaw) -> bool:
    """Whether from there to the end all looks like bytes that a crash kept from the disk: they
    are missing, or they are zeros, from the bad batch's start or a sector of it on."""
    if flaw.kind is FlawKind.INCOMPLETE:
        return True
    position = flaw.position
    end = segment.size
    if flaw.kind is FlawKind.BAD_CRC:
        end = segment.batch_end(position)
    elif position + HEADER.size < end:
        end = position + HEADER.size
    position = max(position, (end - 1) // SECTOR_BYTES * SECTOR_BYTES)
    while position < segment.size:
        chunk = segment.file.read(position, READ_BYTES)
        if chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True
