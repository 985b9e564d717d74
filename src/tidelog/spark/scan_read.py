"""Reads byte ranges of segments, batch by batch, into Arrow. Runs in Spark's tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from tidelog.env import Disk
from tidelog.log.results import DamagedSegment
from tidelog.log.segment import Segment
from tidelog.log.walk import SegmentWalk, find_sound_batch
from tidelog.spark.arrow import ArrowDecoder
from tidelog.spark.planner import range_lost
from tidelog.spark.scan_files import LogFile, SegmentChanged
from tidelog.spark.scan_plan import Boundary, ScanRange, sound_batch_at, walk_from
from tidelog.spark.scan_transactions import TransactionEnds
from tidelog.types import Offset
from tidelog.wire.batch import BatchFlaw, FlawKind, RecordBatch
from tidelog.wire.compression import DecompressedTooLarge, UndecodableData
from tidelog.wire.records_types import CorruptRecords

logger = logging.getLogger(__name__)


class IndexLied(Exception):
    """A range ends inside a batch: what the offset index said of that place was plausible and
    false, so rows of other ranges may be false as well."""


class ScanRules(NamedTuple):
    """What a reader wants to see."""

    columns: tuple[str, ...]
    read_committed: bool = True
    fail_on_data_loss: bool = True


def read_ranges(
    disk: Disk, ranges: Sequence[ScanRange], rules: ScanRules
) -> Iterator[pa.RecordBatch]:
    """The rows of one task. Raises DamagedSegment, IndexLied, SegmentChanged and
    FileNotFoundError."""
    for piece in ranges:
        decoder = ArrowDecoder(piece.partition, rules.columns)
        visibility = _Visibility(disk, piece, rules)
        for walk, position, batch in _batches(disk, piece, rules.fail_on_data_loss):
            if batch.base_offset >= piece.end_offset:
                break
            if visibility.admits(position, batch):
                try:
                    yield from decoder.feed(batch, piece.start_offset, piece.end_offset)
                except (CorruptRecords, UndecodableData, DecompressedTooLarge) as error:
                    damage = DamagedSegment(piece.file.path, position, str(error))
                    if rules.fail_on_data_loss:
                        raise damage from error
                    _report(piece, batch.base_offset, batch.next_offset, damage)
            walk.skip(
                *decoder.feed_plain(
                    batch.buffer,
                    batch.end_position,
                    batch.next_offset,
                    piece.start_offset,
                    piece.end_offset,
                )
            )
        yield from decoder.finish()


class _Visibility:
    """Judges the batches of a range, in their order. Those of no transaction it need not see."""

    def __init__(self, disk: Disk, piece: ScanRange, rules: ScanRules) -> None:
        self._disk = disk
        self._piece = piece
        self._rules = rules
        self._ends: TransactionEnds | None = None

    def admits(self, position: int, batch: RecordBatch) -> bool:
        """Whether a reader may see it. Raises DamagedSegment."""
        piece, rules = self._piece, self._rules
        if batch.is_control or batch.last_offset < piece.start_offset:
            return False
        if not (rules.read_committed and batch.is_transactional):
            return True
        self._ends = self._ends or TransactionEnds(self._disk, piece.file, position)
        committed = self._ends.is_committed(batch.producer_id, batch.last_offset)
        if committed is None:
            why = f"nothing says how producer {batch.producer_id}'s transaction ended"
            damage = DamagedSegment(piece.file.path, position, why)
            if rules.fail_on_data_loss:
                raise damage
            _report(piece, batch.base_offset, batch.next_offset, damage)
        return bool(committed)


def _report(piece: ScanRange, first: Offset, end: Offset, why: Exception) -> None:
    """Of what is left out, since `failOnDataLoss` is false."""
    lost = piece.lost(first, end)
    if lost is not None:
        logger.warning("%s", range_lost(lost, str(why)).reason)


def _batches(
    disk: Disk, piece: ScanRange, fail_on_data_loss: bool
) -> Iterator[tuple[SegmentWalk, int, RecordBatch]]:
    """Batches and their positions, with the walk, that some may be left to."""
    try:
        segment = _open(disk, piece.file)
    except FileNotFoundError as error:
        if fail_on_data_loss:
            raise
        _report(piece, piece.start.offset, piece.end.offset, error)
        return
    file_size, segment.size = segment.size, piece.end.position
    start = piece.start
    while True:
        walk = walk_from(segment, start)
        for position, batch in walk:
            yield walk, position, batch
            if walk.next_offset > piece.end.offset:
                raise SegmentChanged(piece.file.path)  # and the next range would have them again
        if walk.flaw is None:
            break
        if walk.flaw.kind is FlawKind.INCOMPLETE and _is_sound(segment, walk.flaw, file_size):
            raise IndexLied(
                f"{piece.file.path}: the index says that a batch begins at {piece.end.position}, "
                "and none does; scan with useIndex=false, and let the node make its indexes anew, "
                "if it has not compacted the file since the scan was planned"
            )
        damage = DamagedSegment(piece.file.path, walk.flaw.position, walk.flaw.kind.value)
        if fail_on_data_loss:
            raise damage
        sound = find_sound_batch(segment, walk.flaw.position, walk.next_offset)
        following = sound_batch_at(segment, sound) if sound is not None else None
        end = piece.end.offset if following is None else following.base_offset
        _report(piece, walk.next_offset, end, damage)
        if sound is None:
            break
        start = Boundary(sound, walk.next_offset)
    segment.close()


def _is_sound(segment: Segment, flaw: BatchFlaw, file_size: int) -> bool:
    """Whether a batch that does not end within the range does so within the file."""
    range_end, segment.size = segment.size, file_size
    batch = sound_batch_at(segment, flaw.position)
    segment.size = range_end
    return batch is not None


def _open(disk: Disk, file: LogFile) -> Segment:
    """Also if retention has taken the file out of the log and not removed it yet."""
    try:
        return file.open(disk)
    except FileNotFoundError:
        try:
            return file._replace(state=".deleted").open(disk)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{file.path} is gone since the scan was planned: retention deleted it; scan a "
                "copy, or with failOnDataLoss=false what is left"
            ) from None
