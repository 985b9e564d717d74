"""Which records of transactions are committed, from the batches themselves.

`.txnindex` is not asked: whether it is complete could only be known by reading what it is made
from. A transaction ends with its producer's next marker, so a task that meets records of one
looks ahead for that marker, by headers alone and mostly not far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.env import Disk
from tidelog.log.names import SNAPSHOT, file_name
from tidelog.log.producer_replay import COMMIT, snapshot_offsets
from tidelog.log.producer_snapshot import read_snapshot
from tidelog.log.results import DamagedSegment
from tidelog.log.segment import Segment
from tidelog.spark.scan_files import LogFile, standing_files
from tidelog.spark.scan_plan import LogLayout, walk_from
from tidelog.types import Offset
from tidelog.wire import records
from tidelog.wire.batch import CONTROL, TRANSACTIONAL, RecordBatch
from tidelog.wire.batch_reader import read_records


class TransactionEnd(NamedTuple):
    """A marker."""

    producer_id: int
    offset: Offset
    is_commit: bool


class TransactionEnds:
    """The markers behind a place, found when they are asked for. Ask in the order of offsets."""

    def __init__(self, disk: Disk, file: LogFile, position: int) -> None:
        self._upcoming = _ends(disk, file, position)
        self._known: dict[int, deque[TransactionEnd]] = {}

    def is_committed(self, producer_id: int, offset: Offset) -> bool | None:
        """Of the producer's transaction that holds this offset; None if it has no end here."""
        known = self._known.setdefault(producer_id, deque())
        while True:
            while known and known[0].offset < offset:
                known.popleft()
            if known:
                return known[0].is_commit
            end = next(self._upcoming, None)
            if end is None:
                return None
            self._known.setdefault(end.producer_id, deque()).append(end)


def _ends(disk: Disk, file: LogFile, position: int) -> Iterator[TransactionEnd]:
    files = standing_files(disk, file.directory)
    for each in [f for f in files if f.base_offset >= file.base_offset]:
        segment = each.open(disk)
        try:
            for at, header in segment.headers(position):
                if header.is_control:
                    end = _end_of(segment.batch_at(at))
                    if end is not None:
                        yield end
        except DamagedSegment:
            return  # the torn tail; whoever needs what was behind it will say so
        finally:
            segment.close()
        position = 0


def _end_of(batch: RecordBatch) -> TransactionEnd | None:
    """What a control batch says of a transaction; None if it is of another kind."""
    if batch.producer_id < 0 or not batch.record_count or not batch.crc_is_right():
        return None
    key = read_records(batch)[0].key
    if key is None or len(key) < 4:
        return None
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (0, COMMIT):
        return None
    return TransactionEnd(batch.producer_id, batch.last_offset, kind == COMMIT)


def last_stable_offset(disk: Disk, layout: LogLayout) -> Offset:
    """Up to here every transaction has ended: what a reader of committed records may see. The
    newest producer snapshot that agrees with the log saves reading all headers."""
    open_since, start = _open_at_snapshot(disk, layout)
    for header in _transactional(disk, layout, start):
        if header.is_control:
            open_since.pop(header.producer_id, None)
        else:
            open_since.setdefault(header.producer_id, header.base_offset)
    return min(open_since.values(), default=layout.end_offset)


def _transactional(disk: Disk, layout: LogLayout, start_offset: Offset) -> Iterator[RecordBatch]:
    """The batches of transactions, markers too, that end at or above an offset. The others, which
    are most, are passed over without looking at them."""
    for segment_layout in layout.segments:
        if segment_layout.end.offset <= start_offset:
            continue
        segment = segment_layout.file.open(disk)
        segment.size = segment_layout.end.position
        walk = walk_from(segment, segment_layout.boundary_before(start_offset))
        for _, batch in walk:
            if batch.last_offset >= start_offset and batch.attributes & (TRANSACTIONAL | CONTROL):
                yield batch
            walk.skip(
                *records.skip_batches(
                    batch.buffer,
                    batch.end_position,
                    batch.next_offset,
                    TRANSACTIONAL | CONTROL,
                    False,
                )
            )
        segment.close()


def _open_at_snapshot(disk: Disk, layout: LogLayout) -> tuple[dict[int, Offset], Offset]:
    """First offsets of open transactions by producer, and the offset below which they are so."""
    directory = layout.log.directory
    for offset in reversed(snapshot_offsets(disk, directory)):
        if not layout.start_offset < offset <= layout.end_offset:
            continue
        content = disk.read_file(f"{directory}/{file_name(offset, SNAPSHOT)}") or b""
        producers = read_snapshot(content)
        if producers is None:
            continue
        open_since = {
            producer.producer_id: producer.current_txn_first_offset
            for producer in producers
            if producer.current_txn_first_offset is not None
        }
        if all(_begins(disk, layout, *entry) for entry in open_since.items()):
            return open_since, offset
    return {}, layout.start_offset


def _begins(disk: Disk, layout: LogLayout, producer_id: int, first_offset: Offset) -> bool:
    """Whether a record of this producer's transaction lies at that offset."""
    if first_offset < layout.start_offset:
        return True  # it is gone, and only the snapshot remembers
    for _, _, header in headers_from(disk, layout, first_offset):
        is_its = header.base_offset <= first_offset and header.producer_id == producer_id
        return is_its and header.is_transactional and not header.is_control
    return False


def headers_from(
    disk: Disk, layout: LogLayout, start_offset: Offset
) -> Iterator[tuple[Segment, int, RecordBatch]]:
    """Of the batches that end at or above an offset, and where they lie. Raises DamagedSegment."""
    for segment_layout in layout.segments:
        if segment_layout.end.offset <= start_offset:
            continue
        segment = segment_layout.file.open(disk)
        segment.size = segment_layout.end.position
        start = segment_layout.boundary_before(start_offset)
        for position, header in segment.headers(start.position):
            if header.last_offset >= start_offset:
                yield segment, position, header
        segment.close()
