"""What a broker does for its logs by the clock: checkpoints, retention, removing files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.env import DiskFull, Now
from tidelog.events import RemoveFile, ReplaceFile
from tidelog.log.checkpoint import format_lines, format_offset
from tidelog.log.log_dir import Checkpoint
from tidelog.log.results import DamagedSegment
from tidelog.log.retention import delete_old_segments
from tidelog.replica.partition import Partition
from tidelog.slices import Slices, each

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.upkeep")

RETENTION_COST = 50
"""Microseconds for a look at a partition's segments (slices.py)."""


class Upkeep:
    """All of a broker's logs, a few in a step."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def start(self, now: Now) -> None:
        config, begin = self._broker.config, now.monotonic_ms
        every = self._broker.schedule.every
        for interval_ms, task in (
            (config.replica_high_watermark_checkpoint_interval_ms, self._high_watermarks),
            (config.log_flush_offset_checkpoint_interval_ms, self._recovery_points),
            (config.log_flush_start_offset_checkpoint_interval_ms, self._log_starts),
        ):
            every(interval_ms, begin + interval_ms, task)
        first_ms = begin + config.log_initial_task_delay_ms
        every(config.log_retention_check_interval_ms, first_ms, self._begin_retention)

    def _high_watermarks(self, now: Now) -> None:
        for log_dir in self._broker.log_dirs.online:
            marks = self._broker.hosting.high_watermarks(log_dir)
            self._begin_to_write(log_dir.high_watermark_checkpoint(marks), now)

    def _recovery_points(self, now: Now) -> None:
        for log_dir in self._broker.log_dirs.online:
            self._broker.recovery_points.write(log_dir, now)

    def _log_starts(self, now: Now) -> None:
        for log_dir in self._broker.log_dirs.online:
            self._begin_to_write(log_dir.log_start_checkpoint(), now)

    def _begin_to_write(self, checkpoint: Checkpoint, now: Now) -> None:
        self._broker.jobs.add(self._write(checkpoint), now)

    def _write(self, checkpoint: Checkpoint) -> Slices[None]:
        lines = yield from each(checkpoint.offsets, format_offset, 2)
        self._broker.effects.append(ReplaceFile(checkpoint.path, format_lines(lines)))

    def _begin_retention(self, now: Now) -> None:
        self._broker.jobs.add(self._retain(now), now)

    def _retain(self, now: Now) -> Slices[None]:
        for partition in list(self._broker.hosting.by_name.values()):
            if self._broker.hosting.by_id.get((partition.topic_id, partition.index)) is partition:
                self._retain_one(partition, now)
            yield RETENTION_COST

    def _retain_one(self, partition: Partition, now: Now) -> None:
        try:
            count = delete_old_segments(partition.log, partition.high_watermark, now)
        except DiskFull:
            return  # making room needs a new segment first: the next look may have it
        except (OSError, DamagedSegment) as error:
            self._broker.hosting.erred(partition, error, now)
            return
        if count:
            start = partition.log.log_start_offset
            log.info("deleted %d segments of %s, which now starts at %d", count, partition, start)
            partition.changed()
        delay_ms = partition.log.config.file_delete_delay_ms
        for path in partition.log.take_deleted():
            self._remove_later(path, now.monotonic_ms + delay_ms)

    def _remove_later(self, path: str, time_ms: int) -> None:
        self._broker.schedule.at(time_ms, lambda now: self._broker.effects.append(RemoveFile(path)))
