"""Which segments a log no longer needs."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.types import Offset


def delete_old_segments(log: Log, high_watermark: Offset, now: Now) -> int:
    """By log start offset, size, time; the oldest first, up to the first that must stay, and
    nothing that a replica may still lack. Returns how many went."""
    deleted = _delete_below_log_start(log, high_watermark)
    if not log.config.is_deleted_from:
        return deleted
    if log.config.retention_bytes >= 0:
        deleted += _delete_by_size(log, high_watermark, now)
    if log.config.retention_ms >= 0:
        deleted += _delete_by_time(log, high_watermark, now)
    return deleted


def _delete_below_log_start(log: Log, high_watermark: Offset) -> int:
    count = 0
    while count + 1 < len(log.segments):
        end = log.segments[count + 1].base_offset
        if end > min(log.log_start_offset, high_watermark):
            break
        count += 1
    if count:
        log.delete_oldest_segments(count)
    return count


def _delete_by_size(log: Log, high_watermark: Offset, now: Now) -> int:
    excess = log.size_bytes - log.config.retention_bytes

    def is_in_excess(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    count = 0
    for index, segment in enumerate(log.segments):
        if not _may_go(log, index, high_watermark) or not is_in_excess(segment):
            break
        count += 1
    return _delete(log, count, now)


def _delete_by_time(log: Log, high_watermark: Offset, now: Now) -> int:
    count = 0
    for index, segment in enumerate(log.segments):
        age_ms = now.wall_ms - segment.largest_timestamp
        if not _may_go(log, index, high_watermark) or age_ms <= log.config.retention_ms:
            break
        count += 1
    return _delete(log, count, now)


def _may_go(log: Log, index: int, high_watermark: Offset) -> bool:
    segment = log.segments[index]
    end = log.segments.end_of(index, log.log_end_offset)
    return end <= high_watermark and (segment.size > 0 or segment is not log.segments.active)


def _delete(log: Log, count: int, now: Now) -> int:
    if count == len(log.segments):
        log.roll(log.log_end_offset, now)  # a log has an active segment
    if count:
        log.delete_oldest_segments(count)
    return count
