"""What of a log is durable, and what a flush must cover.

The order is the contract: a file's bytes, then leader-epoch-checkpoint, then the directory if a
name in it has changed; only then the recovery point goes up. Recovery reads no batch below it, so
that by then all that is derived from those batches must be durable too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.env import Disk, File, Now
from tidelog.log.names import LEADER_EPOCH_CHECKPOINT
from tidelog.log.producer_replay import store_snapshot
from tidelog.log.producer_state import ProducerStates
from tidelog.log.results import Unflushed
from tidelog.log.segment import Segment
from tidelog.types import Offset

if TYPE_CHECKING:
    from tidelog.log.log import Log


class Durability:
    """The bookkeeping of one log's flushes; at most one is under way."""

    __slots__ = (
        "_flush_end",
        "_flushing",
        "_parent",
        "_snapshots",
        "directory",
        "disk",
        "has_sealed",
        "last_flush_ms",
        "names_changed",
        "recovery_point",
    )

    def __init__(self, disk: Disk, directory: str, recovery_point: Offset) -> None:
        self.disk = disk
        self.directory = directory
        self.recovery_point = recovery_point
        self.names_changed = True
        """A file was made, renamed or removed since the last flush."""
        self.has_sealed = False
        """A segment was sealed since, whose indexes are in memory only."""
        self.last_flush_ms: int | None = None
        self._snapshots: list[File] = []
        """Producer snapshots that are not durable yet."""
        self._flushing: list[File] = []
        """Those that the flush under way covers: if it fails, the next one has to."""
        self._parent: str | None = None
        """The directory's own directory, if that does not know it durably yet."""
        self._flush_end: Offset | None = None
        """What the flush under way will have made durable."""

    def created(self, metadata: File, parent: str) -> None:
        """The directory is new, and so is the file that says whose it is."""
        self._snapshots.append(metadata)
        self._parent = parent
        self.names_changed = True

    def write_snapshot(self, offset: Offset, producers: ProducerStates) -> None:
        """The producers' state below an offset. A torn one is known by its checksum."""
        self._snapshots.append(store_snapshot(self.disk, self.directory, offset, producers))
        self.names_changed = True

    def truncated(self, offset: Offset) -> None:
        """Nothing at or above is there any more, durable or not."""
        self.recovery_point = min(self.recovery_point, offset)
        if self._flush_end is not None:
            self._flush_end = min(self._flush_end, offset)
        self.names_changed = True

    def must_flush_records(self, log: Log) -> bool:
        """Whether so many are not durable that flush.messages lets nobody see the last."""
        return 0 < log.log_end_offset - self.recovery_point >= log.config.flush_messages

    def must_flush(self, log: Log, now: Now) -> bool:
        """By the configs, because a segment was sealed, or because an epoch began."""
        if self._flush_end is not None:
            return False
        if self.must_flush_records(log) or log.leader_epochs.is_dirty or self.has_sealed:
            return True
        unflushed = log.log_end_offset - self.recovery_point
        if self.last_flush_ms is None:
            self.last_flush_ms = now.monotonic_ms
        return unflushed > 0 and now.monotonic_ms - self.last_flush_ms >= log.config.flush_ms

    def unflushed(self, log: Log, now: Now) -> Unflushed | None:
        """See Log.unflushed."""
        if self._flush_end is not None:
            return None
        nothing = self.recovery_point == log.log_end_offset and not log.leader_epochs.is_dirty
        if nothing and not self.names_changed:
            return None
        files: list[File] = []
        for segment in self._not_durable(log):
            files.append(segment.file)
            if segment is not log.segments.active:
                files += segment.write_indexes()
        return self._begin(log, now, files)

    def _not_durable(self, log: Log) -> list[Segment]:
        """From the segment on that holds the last durable record: it may have been sealed after
        that record was flushed, and has its indexes in memory only. Recovery begins with the same
        one, so the indexes of the active segment need not be written at all."""
        return log.segments.from_offset(self.recovery_point - 1)

    def sealed(self, log: Log, now: Now) -> Unflushed:
        """See Log.seal. It takes over from a flush under way, whose answer is then late."""
        files: list[File] = []
        if self._flush_end is not None:
            log.leader_epochs.is_dirty = True  # nobody knows how far that flush has come
        for segment in self._not_durable(log):
            files += [segment.file, *segment.write_indexes()]
        self.write_snapshot(log.log_end_offset, log.producers)
        return self._begin(log, now, files)

    def _begin(self, log: Log, now: Now, files: list[File]) -> Unflushed:
        replacements: tuple[tuple[str, bytes], ...] = ()
        if log.leader_epochs.is_dirty:
            path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
            replacements = ((path, log.leader_epochs.to_bytes()),)
            log.leader_epochs.is_dirty = False
        self._flushing += self._snapshots
        self._snapshots = []
        files += self._flushing
        directories: tuple[str, ...] = ()
        if self._parent is not None:
            directories = (self.directory, self._parent)
        elif self.names_changed:
            directories = (self.directory,)
        self.names_changed = self.has_sealed = False
        self.last_flush_ms = now.monotonic_ms
        self._flush_end = log.log_end_offset
        return Unflushed(log.log_end_offset, tuple(files), replacements, directories)

    def flushed(self, end_offset: Offset) -> None:
        """See Log.flushed."""
        if self._flush_end is not None:
            durable = min(end_offset, self._flush_end)
            self.recovery_point = max(self.recovery_point, durable)
            self._parent = None
            self._flush_end = None
            self._flushing = []

    def failed(self, log: Log) -> None:
        """See Log.flush_failed."""
        self._flush_end = None
        self.names_changed = self.has_sealed = True
        log.leader_epochs.is_dirty = True
