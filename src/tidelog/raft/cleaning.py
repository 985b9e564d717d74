"""The metadata log is cut behind its snapshots, so that it does not grow for ever."""

from __future__ import annotations

import logging

from tidelog.env import DiskFull, Now
from tidelog.log.retention import delete_old_segments
from tidelog.metadata.snapshot import SnapshotId
from tidelog.raft.quorum import Quorum
from tidelog.raft.snapshots import RemoveFiles
from tidelog.raft.types import NEVER

log = logging.getLogger("tidelog.raft")

CLEAN_INTERVAL_MS = 60_000


class Cleaning:
    """A part of raft."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._next_ms = NEVER
        self._seen: SnapshotId | None = None
        """The latest snapshot when it looked last: with a new one there may be more to cut."""

    @property
    def next_deadline_ms(self) -> int:
        return self._next_ms

    def start(self, now: Now) -> None:
        self._next_ms = now.monotonic_ms + CLEAN_INTERVAL_MS

    def work(self, now: Now) -> bool:
        """Let the log begin at a later snapshot while it is too large or too old. The latest
        snapshot always stays."""
        quorum = self._quorum
        latest = quorum.snapshots.latest
        if now.monotonic_ms < self._next_ms and latest == self._seen:
            return False
        self._seen = latest
        self._next_ms = now.monotonic_ms + CLEAN_INTERVAL_MS
        removed: list[str] = []
        while len(quorum.snapshots.ids) > 1 and self._is_due(now):
            next_offset = quorum.snapshots.ids[1].end_offset
            quorum.log.advance_log_start_offset(next_offset)
            delete_old_segments(quorum.log, quorum.high_watermark, now)
            quorum.history.forget_below(next_offset)
            removed += quorum.snapshots.drop_below(next_offset).paths
        removed += quorum.log.take_deleted()
        if removed:
            quorum.flush((RemoveFiles(removed),), self._removed)
        return True

    def _is_due(self, now: Now) -> bool:
        quorum, config = self._quorum, self._quorum.config
        size = quorum.log.size_bytes + quorum.snapshots.size_bytes
        if 0 <= config.retention_bytes < size:
            return True
        age_ms = now.wall_ms - quorum.snapshots.timestamp_ms(quorum.snapshots.ids[0])
        return 0 <= config.retention_ms < age_ms

    def _removed(self, error: OSError | DiskFull | None, now: Now) -> None:
        if error is not None:  # what is left goes at the next start
            log.warning("old files of the metadata log cannot be removed: %s", error)
