"""A broker's state: what it hosts, what it knows, what waits. Handlers read and change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.alter_isr import AlterIsr
from tidelog.broker.automatic_topics import AutomaticTopics
from tidelog.broker.checkpoints import Checkpoints
from tidelog.broker.directory_reports import DirectoryReports
from tidelog.broker.fetch_session import FetchSessions
from tidelog.broker.fetchers import Fetchers
from tidelog.broker.hosting import Hosting
from tidelog.broker.leader_checks import LeaderChecks
from tidelog.broker.lifecycle import Lifecycle
from tidelog.broker.log_dirs import LogDirs
from tidelog.broker.metadata_follower import MetadataFollower
from tidelog.broker.moved_leaders import MovedLeaders
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.refused_batches import RefusedBatches
from tidelog.broker.replication_quota import ReplicationQuotas
from tidelog.broker.upkeep import Upkeep
from tidelog.config.broker import BrokerConfig
from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.events import ConnectionId
from tidelog.metadata.image import MetadataImage
from tidelog.replica.partition import Partition
from tidelog.runtime.controller_channel import ControllerChannel
from tidelog.runtime.metadata import Metadata
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices
from tidelog.types import ZERO_UUID, Offset, Uuid
from tidelog.wire.request import Served

if TYPE_CHECKING:
    from tidelog.broker.handlers.fetch import DelayedFetch


FLUSH_CHECK_INTERVAL_MS = 1000
"""Also how long a flush waits that found the disk full."""
FLUSH_COST = 50
"""Microseconds (slices.py)."""


class Broker:
    """Everything here changes inside `node.step` alone."""

    def __init__(
        self,
        config: BrokerConfig,
        log_dirs: LogDirs,
        metadata: Metadata,
        runtime: Runtime,
        controller: ControllerChannel,
    ) -> None:
        self.static_config = config
        self.config = config
        self.cluster_id = log_dirs.cluster_id
        self.log_dirs = log_dirs
        self.metadata = metadata
        self.controller = controller
        self.runtime = runtime
        self.rng = runtime.rng
        self.effects = runtime.effects
        self.alarm = runtime.alarm
        self.purgatory = runtime.purgatory
        self.schedule = runtime.schedule
        self.jobs = runtime.jobs
        self.woken: dict[DelayedFetch, None] = {}
        """Long polls that something changed for, to be looked at when the step is done."""
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots, self.rng
        )
        self.hosting = Hosting(self)
        self.alter_isr = AlterIsr(self)
        self.fetchers = Fetchers(self)
        self.checkpoints = Checkpoints(self)
        self.quotas = ReplicationQuotas()
        self.refused_batches = RefusedBatches()
        self.producer_ids = ProducerIds(self)
        self.automatic_topics = AutomaticTopics(self)
        self.directory_reports = DirectoryReports(self)
        self.lifecycle = Lifecycle(self)
        self.leader_checks = LeaderChecks(self)
        self.moved_leaders = MovedLeaders(self)
        self.upkeep = Upkeep(self)
        metadata.acted_upon_by(MetadataFollower(self))
        self.listener = config.inter_broker_name
        self.connection: ConnectionId = 0
        """By which the request came that is being handled."""
        self._flush_waiters: dict[Partition, list[tuple[Offset, Callable[[ErrorCode], None]]]] = {}
        """Who is to be told when a partition's log is durable below an offset, or never will."""

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def broker_epoch(self) -> int:
        """Of this process; -1 before it is registered."""
        return self.lifecycle.broker_epoch

    @property
    def image(self) -> MetadataImage:
        """The committed metadata: all that clients may be told."""
        return self.metadata.image

    @property
    def served(self) -> Served:
        from tidelog.broker.router import SERVED

        return SERVED

    def reconfigure(self) -> None:
        """With what the metadata says of all brokers, and of this one."""
        cluster, own = self.image.cluster_configs(), self.image.broker_configs(self.node_id)
        self.config = self.static_config.with_dynamic(cluster, own)
        self.quotas.reconfigure(cluster, own)

    # Partitions.

    def hosted(self, topic: str, topic_id: Uuid, index: int, now: Now) -> Partition | ErrorCode:
        """The replica here, by the topic's id if there is one, else by its name."""
        if topic_id != ZERO_UUID:
            found = self.hosting.by_id.get((topic_id, index))
            return found if found is not None else self.hosting.find_by_id(topic_id, index, now)
        found = self.hosting.by_name.get((topic, index))
        return found if found is not None else self.hosting.find_by_name(topic, index, now)

    def led(self, topic: str, index: int, now: Now) -> Partition | ErrorCode:
        """The replica here, if it leads."""
        partition = self.hosted(topic, ZERO_UUID, index, now)
        if isinstance(partition, Partition) and not partition.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition

    # Time and disk.

    def start(self, now: Now) -> None:
        """What is done again and again from now on."""
        self.upkeep.start(now)
        self.alter_isr.start(now)
        first_ms = now.monotonic_ms + FLUSH_CHECK_INTERVAL_MS
        self.schedule.every(
            FLUSH_CHECK_INTERVAL_MS, first_ms, lambda now: self.jobs.add(self._flush_due(now), now)
        )

    def _flush_due(self, now: Now) -> Slices[None]:
        """Sealed segments, new epochs, and what flush.ms wants."""
        for partition in list(self.hosting.by_name.values()):
            if partition.log.must_flush(now):
                self._flush_log(partition, self.jobs.fresh(now))
                yield FLUSH_COST
            yield 3

    def when_flushed(
        self, partition: Partition, end_offset: Offset, then: Callable[[ErrorCode], None], now: Now
    ) -> None:
        """Flush a partition's log; call then once it is durable below end_offset, or if it will
        not be, with an error."""
        self._flush_waiters.setdefault(partition, []).append((end_offset, then))
        self._flush_log(partition, now)

    def _flush_log(self, partition: Partition, now: Now) -> None:
        """One flush of a log at a time. A full disk is asked again, by and by."""
        log = partition.log
        try:
            unflushed = log.unflushed(now)
        except DiskFull:
            return
        except OSError as error:
            self.hosting.erred(partition, error, now)
            return
        if unflushed is None:
            return

        def done(error: OSError | DiskFull | None, now: Now) -> None:
            if self.hosting.by_id.get((partition.topic_id, partition.index)) is not partition:
                # Deleted meanwhile: its directory has another name by now, and nobody cares.
                self.never_flushed(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif error is None:
                log.flushed(unflushed.end_offset)
                partition.maybe_advance_high_watermark(now)
                self._tell_flushed(partition, now)
            else:
                log.flush_failed()
                if isinstance(error, OSError):
                    reason = f"cannot flush {partition}: {error}"
                    self.hosting.fail(log.path, reason, now)

        self.runtime.flush((unflushed,), done)

    def _tell_flushed(self, partition: Partition, now: Now) -> None:
        waiters = self._flush_waiters.pop(partition, None)
        if waiters is None:
            return
        durable = partition.log.recovery_point
        waiting = [waiter for waiter in waiters if waiter[0] > durable]
        if waiting:
            self._flush_waiters[partition] = waiting
            self._flush_log(partition, now)
        for end_offset, then in waiters:
            if end_offset <= durable:
                then(ErrorCode.NONE)

    def never_flushed(self, partition: Partition, error: ErrorCode) -> None:
        """Tell those who wait: the partition is gone, or its disk is."""
        for _, then in self._flush_waiters.pop(partition, ()):
            then(error)
