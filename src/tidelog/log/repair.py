"""Cuts a damaged partition on purpose: what Apache Kafka does to it unasked at every start."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.env import Disk, Now
from tidelog.log.config import LogConfig
from tidelog.log.names import LOG, parse_file_name
from tidelog.log.recovery import Progress, load
from tidelog.log.results import DamagedSegment
from tidelog.log.segment import Segment
from tidelog.log.walk import SegmentWalk, find_sound_batch
from tidelog.types import Offset


class Repaired(NamedTuple):
    """What is left, and what it cost."""

    log_start_offset: Offset
    log_end_offset: Offset
    bytes_removed: int


def find_damage(
    disk: Disk, path: str, progress: Progress = lambda done, total: None
) -> DamagedSegment | None:
    """Check every batch of the partition in this directory, and change nothing. A torn tail is
    no damage: the next start cuts it."""
    segments = _segments(disk, path)
    next_offset = done = 0
    total = sum(segment.size for segment in segments)
    for index, segment in enumerate(segments):
        walk = SegmentWalk(segment, next_offset)
        for _ in walk:
            progress(done + walk.position, total)
        done += segment.size
        next_offset = walk.next_offset
        if walk.flaw is None:
            continue
        flaw = walk.flaw
        sound = find_sound_batch(segment, flaw.position, next_offset)
        if sound is not None:
            why = f"{flaw.kind.value}, and a sound batch follows at position {sound}"
            return DamagedSegment(segment.path(LOG), flaw.position, why)
        following = [later for later in segments[index + 1 :] if later.size]
        if following:
            why = f"{flaw.kind.value}, and {following[0].path(LOG)} follows"
            return DamagedSegment(segment.path(LOG), flaw.position, why)
    return None


def cut(disk: Disk, path: str, now: Now, progress: Progress = lambda done, total: None) -> Repaired:
    """Cut the log before the first bad batch, remove all that follows, and write everything
    anew that is derived from the batches. No node may run on the directory."""
    before = sum(segment.size for segment in _segments(disk, path))
    log = load(
        disk,
        path,
        LogConfig(),
        is_clean=False,
        recovery_point=0,
        log_start_offset=0,
        now=now,
        progress=progress,
        cut_damage=True,
    )
    log.close(now)
    return Repaired(log.log_start_offset, log.log_end_offset, before - log.size_bytes)


def _segments(disk: Disk, path: str) -> list[Segment]:
    files = map(parse_file_name, disk.names(path))
    bases = [file.offset for file in files if file and file.kind == LOG and not file.state]
    return [Segment(disk, path, base_offset, LogConfig()) for base_offset in bases]
