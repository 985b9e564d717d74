"""Writes recovery-point-offset-checkpoint: by the clock, and after a log was truncated below its
recovery point. Such a log may not grow before that is durable: after a power failure recovery
would take new records for old ones that were flushed. For the same reason no log is made under
the name of one that is gone before all checkpoints have forgotten that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidelog.env import DiskFull, Now
from tidelog.log.checkpoint import TopicPartition, format_lines, format_offset
from tidelog.log.log_dir import LogDir
from tidelog.log.results import Unflushed
from tidelog.slices import Slices, each

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

FULL_DISK_MS = 1000
"""How long a write waits that found the disk full."""

Then = Callable[[Now], None]


class RecoveryPoints:
    """One write of a directory's file at a time: the last one counts."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._writing: dict[LogDir, None] = {}
        self._waiting: dict[LogDir, list[Then]] = {}
        """Who needs a write that begins from now on."""
        self._cut: dict[LogDir, dict[str, None]] = {}
        """Partitions' directories that it is to make durable, too."""

    def write(
        self, log_dir: LogDir, now: Now, then: Then | None = None, path: str | None = None
    ) -> None:
        """Then is called when it is durable, and a partition's directory with it; never, if
        the log directory goes offline."""
        waiting = self._waiting.setdefault(log_dir, [])
        if then is not None:
            waiting.append(then)
        if path is not None:
            self._cut.setdefault(log_dir, {})[path] = None
        if log_dir not in self._writing:
            self._begin(log_dir, now)

    def _begin(self, log_dir: LogDir, now: Now) -> None:
        self._writing[log_dir] = None
        self._broker.jobs.start(self._write(log_dir, self._waiting.pop(log_dir)), now)

    def _write(self, log_dir: LogDir, called: list[Then]) -> Slices[None]:
        outdated = dict(log_dir.outdated)
        checkpoints = [log_dir.recovery_point_checkpoint()]
        if outdated:
            marks = self._broker.hosting.high_watermarks(log_dir)
            checkpoints += log_dir.log_start_checkpoint(), log_dir.high_watermark_checkpoint(marks)
        replacements = []
        for checkpoint in checkpoints:
            lines = yield from each(checkpoint.offsets, format_offset, 2)
            replacements.append((checkpoint.path, format_lines(lines)))
        directories = tuple(self._cut.pop(log_dir, ()))
        work = Unflushed(0, (), tuple(replacements), directories)
        then = partial(self._written, log_dir, called, outdated, directories)
        self._broker.runtime.flush((work,), then)

    def _written(
        self,
        log_dir: LogDir,
        called: list[Then],
        outdated: Mapping[TopicPartition, int],
        directories: tuple[str, ...],
        error: OSError | DiskFull | None,
        now: Now,
    ) -> None:
        del self._writing[log_dir]
        if isinstance(error, DiskFull):
            self._waiting.setdefault(log_dir, []).extend(called)
            self._cut.setdefault(log_dir, {}).update(dict.fromkeys(directories))
            self._broker.schedule.at(now.monotonic_ms + FULL_DISK_MS, partial(self._again, log_dir))
        elif error is not None:
            self._waiting.pop(log_dir, None)
            self._broker.hosting.fail(log_dir.path, f"cannot write recovery points: {error}", now)
        else:
            log_dir.written(outdated)
            for then in called:
                then(now)
            if log_dir in self._waiting and log_dir not in self._writing:
                self._begin(log_dir, now)

    def _again(self, log_dir: LogDir, now: Now) -> None:
        if log_dir in self._waiting and log_dir not in self._writing:
            self._begin(log_dir, now)
