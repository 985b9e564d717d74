"""Finding records by their time."""

from __future__ import annotations

from tidelog.log.names import LOG
from tidelog.log.results import DamagedSegment
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.types import Offset
from tidelog.wire.batch import LOG_APPEND_TIME, NO_TIMESTAMP, RecordBatch
from tidelog.wire.batch_reader import Record, read_records
from tidelog.wire.compression import DecompressedTooLarge, UndecodableData
from tidelog.wire.records_types import CorruptRecords

Found = tuple[int, Offset, int]
"""Timestamp, offset and leader epoch."""


def find_timestamp(segments: Segments, timestamp: int, log_start_offset: Offset) -> Found | None:
    """The first record that is not older."""
    for segment in segments:
        if segment.size == 0 or segment.largest_timestamp < timestamp:
            continue
        start = segment.base_offset + segment.time_index.offset_at_or_before(timestamp)
        position = segment.locate(max(start, log_start_offset))
        for at, header in segment.headers(position):
            if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
                continue
            for record in _records(segment, at):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return record.timestamp, record.offset, header.partition_leader_epoch
    return None


def find_max_timestamp(segments: Segments) -> Found | None:
    """The first record with the greatest timestamp; as in Kafka, of all that the segments hold,
    be it below the log's start."""
    greatest: tuple[int, Segment] | None = None
    for segment in segments:
        # Without timestamps the largest one is the file's, which is no record's.
        known = segment.largest_timestamp if segment.size else NO_TIMESTAMP
        if segment.max_timestamp >= 0 and (greatest is None or known > greatest[0]):
            greatest = known, segment
    if greatest is None:
        return None
    segment = greatest[1]
    return _max_in_batch(segment, segment.locate(segment.max_timestamp_offset))


def _max_in_batch(segment: Segment, position: int) -> Found | None:
    batch = segment.batch_at(position)
    if batch.attributes & LOG_APPEND_TIME:
        return batch.max_timestamp, batch.base_offset, batch.partition_leader_epoch
    found = _read(segment, position, batch)
    if not found:
        return None  # compaction left the offsets only
    greatest = max(record.timestamp for record in found)
    offset = next(record.offset for record in found if record.timestamp == greatest)
    return greatest, offset, batch.partition_leader_epoch


def _records(segment: Segment, position: int) -> list[Record]:
    return _read(segment, position, segment.batch_at(position))


def _read(segment: Segment, position: int, batch: RecordBatch) -> list[Record]:
    try:
        return read_records(batch)
    except (CorruptRecords, UndecodableData, DecompressedTooLarge, ValueError) as error:
        raise DamagedSegment(segment.path(LOG), position, str(error)) from error
