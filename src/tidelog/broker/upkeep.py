"""What a broker does for its logs by the clock: checkpoints, retention, removing files."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from tidelog.env import DiskFull, Now
from tidelog.events import RemoveFile
from tidelog.log.checkpoint import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)
from tidelog.log.results import DamagedSegment
from tidelog.log.retention import delete_old_segments
from tidelog.replica.partition import Partition
from tidelog.slices import Slices

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
        for interval_ms, checkpoint in (
            (config.replica_high_watermark_checkpoint_interval_ms, REPLICATION_CHECKPOINT),
            (config.log_flush_offset_checkpoint_interval_ms, RECOVERY_POINT_CHECKPOINT),
            (config.log_flush_start_offset_checkpoint_interval_ms, LOG_START_CHECKPOINT),
        ):
            every(interval_ms, begin + interval_ms, partial(self._write, checkpoint))
        first_ms = begin + config.log_initial_task_delay_ms
        every(config.log_retention_check_interval_ms, first_ms, self._begin_retention)

    def _write(self, checkpoint: str, now: Now) -> None:
        for log_dir in self._broker.log_dirs.online:
            self._broker.checkpoints.write(log_dir, now, name=checkpoint)

    def _begin_retention(self, now: Now) -> None:
        self._broker.jobs.add(self._retain(now), now)

    def _retain(self, now: Now) -> Slices[None]:
        for partition in list(self._broker.hosting.by_name.values()):
            if self._broker.hosting.by_id.get((partition.topic_id, partition.index)) is partition:
                self._retain_one(partition, self._broker.jobs.fresh(now))
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
