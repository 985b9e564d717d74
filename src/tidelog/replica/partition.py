"""A partition that this broker hosts: its log, who leads it, how far it is readable."""

from __future__ import annotations

from typing import Protocol

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.results import Appended
from tidelog.replica.awaited import Awaited
from tidelog.replica.isr import (
    UNKNOWN,
    Brokers,
    Followers,
    IsrChange,
)
from tidelog.replica.rules import is_plain, produce_rules
from tidelog.types import Offset, Uuid
from tidelog.wire.batch import NO_TIMESTAMP
from tidelog.wire.batch_validation import ValidBatch
from tidelog.wire.records_types import SingleProduce

NO_EPOCH = -1
NO_LEADER = -1


class Watcher(Protocol):
    """Somebody who waits for a partition to change: a fetch session."""

    def partition_changed(self) -> None:
        """There may be something to answer."""

    def watermark_changed(self) -> None:
        """There is something to say, but not a reason to answer: to a follower, who reads
        beyond the high watermark."""


class Partition:
    """Invariant: log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset."""

    __slots__ = (
        "_brokers",
        "_lag_time_max_ms",
        "epoch_start_offset",
        "flushes",
        "followers",
        "high_watermark",
        "high_watermark_awaited",
        "index",
        "leader_epoch",
        "leader_id",
        "log",
        "low_watermark_awaited",
        "min_isr",
        "node_id",
        "partition_epoch",
        "produce_rules",
        "replica_watchers",
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
        brokers: Brokers,
        lag_time_max_ms: int,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.node_id = node_id
        self._brokers = brokers
        self._lag_time_max_ms = lag_time_max_ms
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.epoch_start_offset: Offset = UNKNOWN
        """Of the epoch that it leads. Until the high watermark is there nobody knows where the
        leader before had it."""
        self.replicas: tuple[int, ...] = ()
        self.min_isr = 0
        """How many must be in sync: no more than there are."""
        self.followers: Followers | None = None
        """What a leader knows of the others; None if there are none, or it does not lead."""
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.watchers: dict[Watcher, None] = {}
        """Those that read up to the high watermark."""
        self.replica_watchers: dict[Watcher, None] = {}
        """And those that read all there is."""
        self.high_watermark_awaited = Awaited()
        self.low_watermark_awaited = Awaited()
        self.produce_rules = produce_rules(log.config)
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
    def isr(self) -> tuple[int, ...]:
        """As the controller confirmed it; known to the leader alone."""
        if self.followers is not None:
            return self.followers.committed
        return (self.node_id,) if self.is_leader else ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """With who is about to join: the high watermark waits for it already."""
        return self.isr if self.followers is None else self.followers.maximal

    @property
    def is_under_min_isr(self) -> bool:
        return self.followers is not None and len(self.followers.committed) < self.min_isr

    @property
    def is_end_unknown(self) -> bool:
        """Whether the leader before may have shown more than is readable here yet."""
        return self.high_watermark < self.epoch_start_offset

    @property
    def last_stable_offset(self) -> Offset:
        """Where a read_committed reader stops: the first open transaction, or the end."""
        first_unstable = self.log.first_unstable_offset
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        return first_unstable

    # Roles.

    def become_leader(
        self,
        *,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        now: Now,
    ) -> bool:
        """Lead from now on, or go on leading with what the controller has confirmed since;
        whether that is news. What an answer to AlterPartition told before is none."""
        if partition_epoch <= self.partition_epoch:
            return False
        assert leader_epoch >= self.leader_epoch
        was_leader, is_new_epoch = self.is_leader, leader_epoch != self.leader_epoch
        self.leader_id, self.leader_epoch = self.node_id, leader_epoch
        self.partition_epoch, self.replicas = partition_epoch, replicas
        self._assign_followers(isr)
        if is_new_epoch:
            # Even without appends: the epoch's start must be known to whoever asks where it ends.
            self.epoch_start_offset = self.log.log_end_offset
            self.log.leader_epochs.assign(leader_epoch, self.epoch_start_offset)
            if self.followers is not None:
                known_end = self.epoch_start_offset if was_leader else UNKNOWN
                self.followers.begin_epoch(known_end, now.monotonic_ms)
        # What a restart found is told at once, flushed or not: readers knew it before.
        self._advance_high_watermark(self.log.log_end_offset, now)
        self.changed()
        return True

    def _count_min_isr(self) -> None:
        self.min_isr = min(self.log.config.min_insync_replicas, len(self.replicas))

    def _assign_followers(self, isr: tuple[int, ...]) -> None:
        self._count_min_isr()
        if self.replicas == (self.node_id,):
            self.followers = None
        else:
            if self.followers is None:
                self.followers = Followers(self.node_id, self._brokers, self._lag_time_max_ms)
            self.followers.assign(self.replicas, isr)
        self.takes_singles = is_plain(self.log.config)

    def become_follower(
        self, *, leader_id: int, leader_epoch: int, partition_epoch: int, replicas: tuple[int, ...]
    ) -> bool:
        """Follow from now on, whoever leads or nobody; whether a new epoch began with it."""
        if partition_epoch <= self.partition_epoch:
            return False
        assert leader_id != self.node_id
        assert leader_epoch >= self.leader_epoch
        is_new_epoch = leader_epoch != self.leader_epoch
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.partition_epoch, self.replicas = partition_epoch, replicas
        self._count_min_isr()
        self.followers, self.takes_singles = None, False
        self.epoch_start_offset = UNKNOWN
        if is_new_epoch:
            self.changed()
        return is_new_epoch

    # The leader's.

    def append(self, batch: ValidBatch, now: Now) -> Appended | ErrorCode:
        """Append as leader, and let those know who wait for records."""
        assert self.is_leader
        appended = self.log.append_as_leader(batch, self.leader_epoch, now)
        if isinstance(appended, Appended) and not appended.is_duplicate:
            self.maybe_advance_high_watermark(now)
            self._tell_replicas()
        return appended

    def append_single(self, batch: SingleProduce, now: Now) -> Appended | ErrorCode:
        """The same with a batch of its own request, where there is no other replica: the hot
        path."""
        log = self.log
        times = batch.max_timestamp, NO_TIMESTAMP
        appended = log.append_checked(batch, batch.records, *times, self.leader_epoch, now)
        if isinstance(appended, Appended) and not appended.is_duplicate:
            self.high_watermark = end_offset = log.log_end_offset
            if log.producers.unreplicated:
                log.producers.high_watermark_advanced(end_offset)
            if self.watchers:
                self._tell_readers()
        return appended

    def append_replicated(self, batch: SingleProduce, now: Now) -> Appended | ErrorCode:
        """The same where others have to have it."""
        times = batch.max_timestamp, NO_TIMESTAMP
        appended = self.log.append_checked(batch, batch.records, *times, self.leader_epoch, now)
        if isinstance(appended, Appended) and not appended.is_duplicate:
            assert self.followers is not None
            if len(self.followers.maximal) == 1:  # nobody to wait for
                self._advance_high_watermark(self.log.log_end_offset, now)
            self._tell_replicas()
        return appended

    @property
    def must_flush_records(self) -> bool:
        """Whether flush.messages lets nobody see the last ones yet."""
        return self.log.durability.must_flush_records(self.log)

    def maybe_advance_high_watermark(self, now: Now) -> bool:
        """The least end of the in-sync replicas is what can no longer be lost. With
        flush.messages, what must be flushed counts once it is. A follower's moves by what its
        leader tells alone."""
        if not self.is_leader:
            return False
        end_offset = self.log.log_end_offset
        if self.flushes and self.must_flush_records:
            end_offset = self.log.recovery_point
        return self._advance_high_watermark(end_offset, now)

    def _advance_high_watermark(self, end_offset: Offset, now: Now) -> bool:
        if self.followers is not None:
            if len(self.followers.committed) < self.min_isr:
                # Frozen, whoever is caught up: what is acknowledged is on so many, or not at all.
                return False
            log_end_offset = self.log.log_end_offset
            end_offset = self.followers.replicated_end(end_offset, log_end_offset, now.monotonic_ms)
        if end_offset <= self.high_watermark:
            return False
        self.set_high_watermark(end_offset)
        return True

    def set_high_watermark(self, offset: Offset) -> None:
        """It went up: tell those who wait for that."""
        self.high_watermark = offset
        self.log.producers.high_watermark_advanced(offset)
        self._tell_readers()
        for watcher in list(self.replica_watchers):
            watcher.watermark_changed()
        if self.high_watermark_awaited:
            self.high_watermark_awaited.reached(offset)

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Give up what lies below; never beyond what all replicas have."""
        assert offset <= self.high_watermark
        if not self.log.advance_log_start_offset(offset):
            return False
        self.changed()
        return True

    @property
    def low_watermark(self) -> Offset:
        """Below it no live replica has a record any more."""
        start = self.log.log_start_offset
        return start if self.followers is None else self.followers.low_watermark(start)

    def check_follower(self, replica_id: int, broker_epoch: int, leader_epoch: int) -> ErrorCode:
        """Whether a broker may fetch as a replica. Whoever is none may be one soon, if its
        metadata is newer than ours."""
        if self.followers is None or replica_id not in self.followers.remote:
            if leader_epoch == NO_EPOCH:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.followers.is_stale(replica_id, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def follower_fetched(
        self,
        replica_id: int,
        *,
        fetch_offset: Offset,
        log_start_offset: Offset,
        broker_epoch: int,
        now: Now,
    ) -> IsrChange | None:
        """A replica asked for what lies at fetch_offset: it has all that lies below. Returns
        what is to be asked of the controller, if that makes it a member of the ISR."""
        followers = self.followers
        assert followers is not None
        replica = followers.remote[replica_id]
        end_offset_before = replica.log_end_offset
        replica.fetched(
            fetch_offset,
            log_start_offset,
            broker_epoch,
            self.log.log_end_offset,
            now.monotonic_ms,
        )
        # Also the epoch's start: the high watermark of a new leader may be far behind.
        end_offset_min = max(self.high_watermark, self.epoch_start_offset)
        isr = followers.expanded(replica, end_offset_min)
        change = None if isr is None else self.propose(isr)
        if replica.log_end_offset != end_offset_before:
            self.maybe_advance_high_watermark(now)
        if self.low_watermark_awaited:
            self.low_watermark_awaited.reached(self.low_watermark)
        return change

    def propose(self, isr: tuple[int, ...]) -> IsrChange:
        """What to ask of the controller; from now on it is under way (isr_change.py)."""
        assert self.followers is not None
        return self.followers.propose(isr, self.leader_epoch, self.partition_epoch)

    def truncated(self) -> None:
        """As a follower: the log ends earlier, or starts anew."""
        log = self.log
        kept = min(self.high_watermark, log.log_end_offset)
        self.high_watermark = max(kept, log.log_start_offset)
        log.producers.high_watermark_advanced(self.high_watermark)
        self.changed()

    # Both.

    def reconfigure(self, config: LogConfig, now: Now) -> None:
        """What the topic's configs say now counts from the next append on."""
        self.log.config = config
        self._count_min_isr()
        self.produce_rules = produce_rules(config)
        self.takes_singles = self.is_leader and is_plain(config)
        self.flushes = config.flushes_by_count
        self.maybe_advance_high_watermark(now)

    def changed(self) -> None:
        """Everybody has a look: the partition may have another leader, or none, or be gone."""
        for watcher in [*self.watchers, *self.replica_watchers]:
            watcher.partition_changed()
        self.high_watermark_awaited.all()
        self.low_watermark_awaited.all()

    def _tell_readers(self) -> None:
        """There is more to read."""
        if self.watchers:
            for watcher in list(self.watchers):
                watcher.partition_changed()

    def _tell_replicas(self) -> None:
        """There is more in the log, committed or not."""
        for watcher in list(self.replica_watchers):
            watcher.partition_changed()

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Fences a peer whose knowledge is older than ours, or ours than its own."""
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH
