"""What a broker does for its logs by the clock: checkpoints, retention, removing files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.env import DiskFull, Now
from tidelog.events import RemoveFile, ReplaceFile
from tidelog.log.retention import delete_old_segments
from tidelog.replica.partition import Partition

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.upkeep")

PARTITIONS_A_STEP_MAX = 50
"""A look at a partition's segments takes some tens of microseconds."""


class Upkeep:
    """All of a broker's logs, a few at a time."""

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
        marks = {key: p.high_watermark for key, p in self._broker.hosting.by_name.items()}
        self._replace(*self._broker.log_dir.high_watermark_checkpoint(marks))

    def _recovery_points(self, now: Now) -> None:
        self._replace(*self._broker.log_dir.recovery_point_checkpoint())

    def _log_starts(self, now: Now) -> None:
        self._replace(*self._broker.log_dir.log_start_checkpoint())

    def _replace(self, path: str, content: bytes) -> None:
        self._broker.effects.append(ReplaceFile(path, content))

    def _begin_retention(self, now: Now) -> None:
        self._retain(list(self._broker.hosting.by_name.values()), now)

    def _retain(self, partitions: list[Partition], now: Now) -> None:
        """A few partitions now, the others in later steps."""
        for partition in partitions[:PARTITIONS_A_STEP_MAX]:
            if self._broker.hosting.by_id.get((partition.topic_id, partition.index)) is partition:
                self._retain_one(partition, now)
        rest = partitions[PARTITIONS_A_STEP_MAX:]
        if rest:
            self._broker.schedule.at(now.monotonic_ms, lambda now: self._retain(rest, now))

    def _retain_one(self, partition: Partition, now: Now) -> None:
        try:
            count = delete_old_segments(partition.log, partition.high_watermark, now)
        except DiskFull:
            return  # making room needs a new segment first: the next look may have it
        except OSError as error:
            self._broker.hosting.fail(f"cannot delete segments of {partition}: {error}")
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
