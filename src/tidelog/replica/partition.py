"""A partition that this broker hosts: its log, who leads it, how far it is readable."""

from __future__ import annotations

from typing import Protocol

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.results import Appended
from tidelog.types import Offset, Uuid
from tidelog.wire.batch import NO_TIMESTAMP, TimestampType
from tidelog.wire.batch_validation import ProduceRules, ValidBatch
from tidelog.wire.records_types import SingleProduce

NO_EPOCH = -1


class Watcher(Protocol):
    """Somebody who waits for a partition to change: a fetch session."""

    def partition_changed(self) -> None: ...


class Partition:
    """Invariant: log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset."""

    __slots__ = (
        "flushes",
        "high_watermark",
        "index",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "node_id",
        "partition_epoch",
        "produce_rules",
        "replicas",
        "takes_singles",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        topic_id: Uuid,
        index: int,
        log: Log,
        *,
        node_id: int,
        high_watermark: Offset,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.node_id = node_id
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.watchers: dict[Watcher, None] = {}
        self.produce_rules = _produce_rules(log.config)
        self.takes_singles = False
        """Whether nothing but appending is to be done with a batch that is accepted."""
        self.flushes = log.config.flushes_by_count
        """Whether flush.messages keeps readers and producers waiting for the disk."""
        log.producers.high_watermark_advanced(self.high_watermark)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    @property
    def last_stable_offset(self) -> Offset:
        """Where a read_committed reader stops: the first open transaction, or the end."""
        first_unstable = self.log.first_unstable_offset
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        return first_unstable

    def become_leader(
        self,
        *,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
    ) -> None:
        """Lead from now on, or go on leading with what the controller has confirmed since."""
        assert partition_epoch >= self.partition_epoch
        if leader_epoch != self.leader_epoch:
            assert leader_epoch > self.leader_epoch
            # Even without appends: the epoch's start must be known to whoever asks where it ends.
            self.log.leader_epochs.assign(leader_epoch, self.log.log_end_offset)
        self.leader_id, self.leader_epoch = self.node_id, leader_epoch
        self.partition_epoch, self.replicas, self.isr = partition_epoch, replicas, isr
        self.takes_singles = _is_plain(self.log.config)
        # What a restart found is told at once, flushed or not: readers knew it before.
        self._advance_high_watermark(self.log.log_end_offset)

    def append(self, batch: ValidBatch, now: Now) -> Appended | ErrorCode:
        """Append as leader, and let those know who wait for records."""
        assert self.is_leader
        appended = self.log.append_as_leader(batch, self.leader_epoch, now)
        if isinstance(appended, Appended) and not appended.is_duplicate:
            self.maybe_advance_high_watermark()
        return appended

    def append_single(self, batch: SingleProduce, now: Now) -> Appended | ErrorCode:
        """The same with a batch of its own request."""
        log = self.log
        times = batch.max_timestamp, NO_TIMESTAMP
        appended = log.append_checked(batch, batch.records, *times, self.leader_epoch, now)
        if isinstance(appended, Appended) and not appended.is_duplicate:
            self._advance_high_watermark(log.log_end_offset)
        return appended

    @property
    def must_flush_records(self) -> bool:
        """Whether flush.messages lets nobody see the last ones yet."""
        return self.log.durability.must_flush_records(self.log)

    def maybe_advance_high_watermark(self) -> bool:
        """The least end of the in-sync replicas is what can no longer be lost. With
        flush.messages, what must be flushed counts once it is."""
        end_offset = self.log.log_end_offset
        if self.flushes and self.must_flush_records:
            end_offset = self.log.recovery_point
        return self._advance_high_watermark(end_offset)

    def _advance_high_watermark(self, end_offset: Offset) -> bool:
        assert self.isr == (self.node_id,), "replication comes with the cluster"
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        self.log.producers.high_watermark_advanced(end_offset)
        if self.watchers:
            self.changed()
        return True

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Give up what lies below; never beyond what all replicas have."""
        assert offset <= self.high_watermark
        if not self.log.advance_log_start_offset(offset):
            return False
        self.changed()
        return True

    def reconfigure(self, config: LogConfig) -> None:
        """What the topic's configs say now counts from the next append on."""
        self.log.config = config
        self.produce_rules = _produce_rules(config)
        self.takes_singles = self.is_leader and _is_plain(config)
        self.flushes = config.flushes_by_count
        if self.is_leader:
            self.maybe_advance_high_watermark()

    def changed(self) -> None:
        for watcher in list(self.watchers):
            watcher.partition_changed()

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Fences a peer whose knowledge is older than ours, or ours than its own."""
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH


def _is_plain(config: LogConfig) -> bool:
    return (
        config.compression_type == "producer"
        and config.message_timestamp_type is TimestampType.CREATE_TIME
        and not config.flushes_by_count
    )


def _produce_rules(config: LogConfig) -> ProduceRules:
    return ProduceRules(
        timestamp_type=config.message_timestamp_type,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted=config.is_compacted,
        max_message_bytes=config.max_message_bytes,
    )
