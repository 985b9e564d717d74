"""Writes a directory's checkpoints, all of them here, as two writers of a file would undo each
other: by the clock, and recovery points after a log was truncated below its own. Such a log may
not grow before that is durable: after a power failure recovery would take new records for old
ones that were flushed. For the same reason no log is made under the name of one that is gone
before all checkpoints have forgotten that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Disk, DiskFull, File, Now
from tidelog.events import Lane
from tidelog.log.checkpoint import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    TopicPartition,
    format_lines,
    format_offset,
)
from tidelog.log.log import Log
from tidelog.log.log_dir import Checkpoint, LogDir
from tidelog.log.results import Unflushed
from tidelog.slices import Slices, each

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

FULL_DISK_MS = 1000
"""How long a write waits that found the disk full."""
EVERY_CHECKPOINT = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, REPLICATION_CHECKPOINT)

Then = Callable[[Now], None]


class Cut(NamedTuple):
    """A log that was truncated: what was cut off may not come back behind what is appended."""

    file: File
    directory: str

    def flush(self, disk: Disk) -> None:
        self.file.flush()
        with suppress(FileNotFoundError):  # or the partition is gone by now
            disk.flush_directory(self.directory)


class Wanted:
    """What a directory's next write is to do."""

    __slots__ = ("called", "cuts", "names")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.cuts: list[Cut] = []
        """To be made durable with it."""
        self.called: list[Then] = []
        """Who needs a write that begins from now on."""

    def add(self, other: Wanted) -> None:
        self.names.update(other.names)
        self.cuts += other.cuts
        self.called += other.called


class Checkpoints:
    """One write of a directory's checkpoints at a time: the last one counts."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._writing: dict[LogDir, None] = {}
        self._wanted: dict[LogDir, Wanted] = {}

    def write(
        self,
        log_dir: LogDir,
        now: Now,
        then: Then | None = None,
        cut: Log | None = None,
        name: str = RECOVERY_POINT_CHECKPOINT,
    ) -> None:
        """Then is called when it is durable, and with it that a log was cut; never, if the log
        directory goes offline."""
        wanted = self._wanted.setdefault(log_dir, Wanted())
        wanted.names[name] = None
        if then is not None:
            wanted.called.append(then)
        if cut is not None:
            wanted.cuts.append(Cut(cut.segments.active.file, cut.path))
        self._begin(log_dir, now)

    def _begin(self, log_dir: LogDir, now: Now) -> None:
        if log_dir in self._wanted and log_dir not in self._writing:
            self._writing[log_dir] = None
            self._broker.jobs.start(self._write(log_dir, self._wanted.pop(log_dir)), now)

    def _write(self, log_dir: LogDir, wanted: Wanted) -> Slices[None]:
        outdated = dict(log_dir.outdated)
        names = EVERY_CHECKPOINT if outdated else tuple(wanted.names)
        if log_dir.was_compacted and (outdated or wanted.cuts):
            names += (CLEANER_CHECKPOINT,)
        replacements = []
        for checkpoint in [self._checkpoint(log_dir, name) for name in names]:
            lines = yield from each(checkpoint.offsets, format_offset, 2)
            replacements.append((checkpoint.path, format_lines(lines)))
        work = Unflushed(0, (), tuple(replacements), ())
        then = partial(self._written, log_dir, wanted, outdated)
        lane = Lane.AWAITED if wanted.called else Lane.SOME_DAY
        self._broker.runtime.flush((work, *wanted.cuts), then, lane)

    def _checkpoint(self, log_dir: LogDir, name: str) -> Checkpoint:
        if name == RECOVERY_POINT_CHECKPOINT:
            return log_dir.recovery_point_checkpoint()
        if name == LOG_START_CHECKPOINT:
            return log_dir.log_start_checkpoint()
        if name == CLEANER_CHECKPOINT:
            return log_dir.cleaner_checkpoint()
        return log_dir.high_watermark_checkpoint(self._broker.hosting.high_watermarks(log_dir))

    def _written(
        self,
        log_dir: LogDir,
        done: Wanted,
        outdated: Mapping[TopicPartition, int],
        error: OSError | DiskFull | None,
        now: Now,
    ) -> None:
        del self._writing[log_dir]
        if isinstance(error, DiskFull):
            self._wanted.setdefault(log_dir, Wanted()).add(done)
            self._broker.schedule.at(now.monotonic_ms + FULL_DISK_MS, partial(self._begin, log_dir))
        elif error is not None:
            self._wanted.pop(log_dir, None)
            self._broker.hosting.fail(log_dir.path, f"cannot write checkpoints: {error}", now)
        else:
            log_dir.written(outdated)
            for then in done.called:
                then(now)
            self._begin(log_dir, now)
