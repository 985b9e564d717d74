"""A partition that a fetcher keeps up with its leader: what to ask for, and what to do with the
leader's answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from tidelog.broker.fetcher_session import Wanted
from tidelog.broker.replication_quota import is_named
from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.log.results import CorruptBatch, DamagedSegment
from tidelog.replica.following import (
    append_as_follower,
    leader_told,
    truncate_fully_and_start_at,
    truncate_to,
    truncate_to_epoch_end,
)
from tidelog.replica.partition import Partition
from tidelog.types import Offset
from tidelog.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.fetcher")
_new = tuple.__new__

FIRST_DELAY_MS = 20
"""Doubled with each failure, up to replica.fetch.backoff.ms: after an election the leader most
often learns of it within milliseconds."""
THROTTLE_MS_MAX = 1000
"""After which a throttled partition is asked for again, whatever its share: it must be heard of."""


class State(Enum):
    """Whether a partition is asked for."""

    FETCHING = "fetching"
    DELAYED = "delayed"
    """Until its time has come."""
    OUT_OF_RANGE = "out of range"
    """Until the leader has said where its log begins and ends."""
    TRUNCATED = "truncated"
    """Until the disk knows that."""
    FAILED = "failed"
    """Until the metadata brings a new epoch."""


class Followed:
    """Invariant: what is fetched next is the log's end; the answer to another question is not
    used."""

    __slots__ = ("_bytes_max", "_failures", "due_ms", "leader_epoch", "partition", "state")

    def __init__(self, partition: Partition, bytes_max: int) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state = State.FETCHING
        self.due_ms = 0
        """When it is asked for again, if it is delayed."""
        self._bytes_max = bytes_max
        self._failures = 0
        if not partition.log.leader_epochs.epochs:
            # Where no epoch tells what diverges, only what is committed is sure.
            self._cut(lambda: truncate_to(partition, partition.high_watermark))

    @property
    def wanted(self) -> Wanted | None:
        """What to ask for; None if nothing."""
        if self.state is not State.FETCHING:
            return None
        own = self.partition.log
        epoch, latest = self.leader_epoch, own.leader_epochs.latest
        # Without the named tuple's own constructor: this is done for every batch.
        return _new(
            Wanted, (own.log_end_offset, epoch, latest, own.log_start_offset, self._bytes_max)
        )

    def is_waiting_for(self, told: Wanted) -> bool:
        """Whether the answer to what was asked is of use."""
        return (
            self.state is State.FETCHING
            and told.fetch_offset == self.partition.log.log_end_offset
            and told.current_leader_epoch == self.leader_epoch
        )

    def delay(self, backoff_ms: int, now: Now) -> None:
        self.state = State.DELAYED
        delay_ms = min(backoff_ms, FIRST_DELAY_MS << min(self._failures, 16))
        self._failures += 1
        self.due_ms = now.monotonic_ms + delay_ms

    def answered(self, data: PartitionData, records: memoryview, broker: Broker, now: Now) -> bool:
        """Append or cut off; whether what else the leader told counts."""
        error = data.error_code
        try:
            if error == ErrorCode.NONE:
                self._failures = 0
                return self._take(data, records, now)
        except CorruptBatch as corrupt:
            log.error("%s: the leader sent what is not sound %s", self.partition, corrupt)
            self._delay(broker, now)
        except DiskFull:
            self._delay(broker, now)
        except (OSError, DamagedSegment) as failure:
            self.state = State.FAILED
            broker.hosting.erred(self.partition, failure, now)
        else:
            self._refused(ErrorCode.of(error), broker, now)
        return False

    def _take(self, data: PartitionData, records: memoryview, now: Now) -> bool:
        diverging = data.diverging_epoch
        if diverging.epoch >= 0:
            epoch, end_offset = diverging.epoch, diverging.end_offset
            self._cut(lambda: truncate_to_epoch_end(self.partition, epoch, end_offset))
            return False
        if len(records):
            append_as_follower(self.partition, records, now)
        return True

    def _cut(self, truncate: Callable[[], None]) -> None:
        """What is cut off below the recovery point must be known to the disk before the log
        grows again, and so must be that a segment is gone: it could come back behind what is
        appended in its place."""
        log = self.partition.log
        recovery_point, active = log.recovery_point, log.segments.active
        truncate()
        if log.recovery_point < recovery_point or log.segments.active is not active:
            self.state = State.TRUNCATED

    def _refused(self, error: ErrorCode, broker: Broker, now: Now) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.state = State.OUT_OF_RANGE
        elif (
            error is ErrorCode.FENCED_LEADER_EPOCH
            and self.leader_epoch == self.partition.leader_epoch
        ):
            # At every election, for each of its partitions.
            log.debug(
                "%s: its leader has a newer epoch, which the metadata will tell", self.partition
            )
            self.state = State.FAILED
        else:
            self._delay(broker, now)

    def _delay(self, broker: Broker, now: Now) -> None:
        self.delay(broker.config.replica_fetch_backoff_ms, now)

    def throttle(self, data: PartitionData, size: int, broker: Broker, now: Now) -> None:
        """What was fetched counts; who lags waits, if it was too much."""
        own, quota = self.partition.log, broker.quotas.follower
        throttled = own.config.follower_replication_throttled_replicas
        if not throttled or not is_named(throttled, self.partition.index, broker.node_id):
            return
        quota.record(size, now.monotonic_ms)
        wait_ms = quota.wait_ms(now.monotonic_ms)
        if wait_ms and data.high_watermark > own.log_end_offset:
            self.state = State.DELAYED
            self.due_ms = now.monotonic_ms + min(wait_ms, THROTTLE_MS_MAX)

    def learned(self, data: PartitionData) -> None:
        """How far the leader's log is committed, and where it starts."""
        leader_told(self.partition, data.high_watermark, data.log_start_offset)

    # Out of range: what the leader answers to ListOffsets.

    def leader_ends_at(self, end_offset: Offset, broker: Broker, now: Now) -> bool:
        """Whether that is all there is to know: then what lies beyond is cut off."""
        if end_offset >= self.partition.log.log_end_offset:
            return False
        self._mend(lambda: truncate_to(self.partition, end_offset), broker, now)
        return True

    def leader_starts_at(self, start_offset: Offset, broker: Broker, now: Now) -> None:
        def begin_anew() -> None:
            if start_offset > self.partition.log.log_end_offset:
                truncate_fully_and_start_at(self.partition, start_offset)

        self._mend(begin_anew, broker, now)

    def _mend(self, truncate: Callable[[], None], broker: Broker, now: Now) -> None:
        self.state = State.FETCHING
        try:
            self._cut(truncate)
        except DiskFull:
            self._delay(broker, now)
        except (OSError, DamagedSegment) as failure:
            self.state = State.FAILED
            broker.hosting.erred(self.partition, failure, now)
