"""A broker's state: what it hosts, what it knows, what waits. Handlers read and change it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tidelog.broker.fetch_session import FetchSessions
from tidelog.broker.hosting import Hosting
from tidelog.broker.log_dirs import LogDirs
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.upkeep import Upkeep
from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import Decision
from tidelog.env import DiskFull, Now, Rng
from tidelog.errors import ErrorCode
from tidelog.events import StopProcess
from tidelog.metadata.image import MetadataImage
from tidelog.raft.metadata_log import Committed, MetadataLog
from tidelog.replica.partition import Partition
from tidelog.runtime.jobs import STEP_COST_MAX
from tidelog.runtime.purgatory import Delayed
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices
from tidelog.types import ZERO_UUID, Offset, Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.update_features import UpdateFeaturesResponse
from tidelog.wire.request import Served

if TYPE_CHECKING:
    from tidelog.broker.handlers.fetch import DelayedFetch


FLUSH_CHECK_INTERVAL_MS = 1000
"""Also how long a flush waits that found the disk full."""
FLUSH_COST = 50
TELL_COST = 10
"""Microseconds (slices.py)."""

R = TypeVar("R")


class Broker:
    """Everything here changes inside `node.step` alone."""

    def __init__(
        self,
        config: BrokerConfig,
        log_dirs: LogDirs,
        metadata: MetadataLog,
        rng: Rng,
    ) -> None:
        self.static_config = config
        self.config = config
        self.cluster_id = log_dirs.cluster_id
        self.log_dirs = log_dirs
        self.metadata = metadata
        self.rng = rng
        self.runtime = runtime = Runtime(rng)
        self.effects = runtime.effects
        self.alarm = runtime.alarm
        self.purgatory = runtime.purgatory
        self.schedule = runtime.schedule
        self.jobs = runtime.jobs
        self.woken: dict[DelayedFetch, None] = {}
        """Long polls that something changed for, to be looked at when the step is done."""
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, rng)
        self.hosting = Hosting(self)
        self.producer_ids = ProducerIds(self)
        self.upkeep = Upkeep(self)
        self.listener = config.inter_broker_name
        """By which the request came that is being handled."""
        self._metadata_flush_is_under_way = False
        self._is_deciding = False
        self._committed: deque[tuple[list[Message], list[Committed]]] = deque()
        """Records that nobody has acted upon, with who waits for that."""
        self._is_acting = False
        self._flush_waiters: dict[Partition, list[tuple[Offset, Callable[[ErrorCode], None]]]] = {}
        """Who is to be told when a partition's log is durable below an offset, or never will."""

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def image(self) -> MetadataImage:
        """The committed metadata: all that clients may be told."""
        return self.metadata.committed.shown

    @property
    def served(self) -> Served:
        return self.served_at(self.listener)

    def served_at(self, listener: str) -> Served:
        """Clients' listeners serve all that a broker does, controllers' what concerns them."""
        from tidelog.broker.router import CONTROLLER_SERVED, SERVED

        return CONTROLLER_SERVED if listener in self.config.controller_names else SERVED

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

    # Metadata.

    def in_turn(self, decide: Callable[[], Slices[R]]) -> Slices[R]:
        """One decision at a time, from its look at the metadata until that has its records."""
        while self._is_deciding:
            yield STEP_COST_MAX  # the turn is another job's
        self._is_deciding = True
        try:
            return (yield from decide())
        finally:
            self._is_deciding = False

    def commit(
        self, decide: Callable[[], Slices[Decision[Any]]], results: str, timeout_ms: int, now: Now
    ) -> Slices[Message | Delayed]:
        """Answer when the records of a decision are committed.

        `results` names the field of the response whose elements get an error if they cannot be.
        """
        return (yield from self.in_turn(lambda: self._commit(decide(), results, timeout_ms, now)))

    def _commit(
        self, deciding: Slices[Decision[Any]], results: str, timeout_ms: int, now: Now
    ) -> Slices[Message | Delayed]:
        decision = yield from deciding
        if not decision.records and not self.metadata.has_pending:
            return cast(Message, decision.response)
        delayed = DelayedCommit(now.monotonic_ms + max(timeout_ms, 1), decision.response, results)
        error = yield from self.metadata.append_in_slices(
            decision.records, now, lambda _: self.purgatory.complete(delayed, decision.response)
        )
        if error is not ErrorCode.NONE:
            return delayed.failed(error)
        self.flush_metadata(now)
        return delayed

    def flush_metadata(self, now: Now) -> None:
        """One flush at a time: what is appended meanwhile shares the next one."""
        if self._metadata_flush_is_under_way:
            return
        log = self.metadata.log
        try:
            unflushed = log.unflushed(now)
        except DiskFull:
            self._flush_metadata_later(now)
            return
        if unflushed is None:
            return
        self._metadata_flush_is_under_way = True

        def done(error: OSError | DiskFull | None, now: Now) -> None:
            self._metadata_flush_is_under_way = False
            if isinstance(error, DiskFull):
                log.flush_failed()
                self._flush_metadata_later(now)
                return
            if error is not None:
                # A flush that failed may have lost anything: believing in it is not an option.
                self.effects.append(StopProcess(f"the metadata log cannot be flushed: {error}"))
                return
            self.committed_up_to(unflushed.end_offset, now)
            if self.metadata.has_pending:
                self.flush_metadata(now)

        self.runtime.flush((unflushed,), done)

    def _flush_metadata_later(self, now: Now) -> None:
        self.schedule.at(now.monotonic_ms + FLUSH_CHECK_INTERVAL_MS, self.flush_metadata)

    def committed_up_to(self, end_offset: int, now: Now) -> None:
        """Act on what was committed, then tell those who waited for it. What is committed
        meanwhile is acted upon after that."""
        self._committed.append(self.metadata.flushed(end_offset))
        if not self._is_acting:
            self.jobs.start(self._act_on_committed(now), now)

    def _act_on_committed(self, now: Now) -> Slices[None]:
        self._is_acting = True
        try:
            while self._committed:
                records, called = self._committed.popleft()
                yield from self.hosting.apply(records, now)
                for then in called:
                    then(now)
                    yield TELL_COST
        finally:
            self._is_acting = False

    # Time and disk.

    def start(self, now: Now) -> None:
        """What is done again and again from now on."""
        self.upkeep.start(now)
        first_ms = now.monotonic_ms + FLUSH_CHECK_INTERVAL_MS
        self.schedule.every(
            FLUSH_CHECK_INTERVAL_MS, first_ms, lambda now: self.jobs.add(self._flush_due(now), now)
        )

    def _flush_due(self, now: Now) -> Slices[None]:
        """Sealed segments, new epochs, and what flush.ms wants."""
        for partition in list(self.hosting.by_name.values()):
            if partition.log.must_flush(now):
                self._flush_log(partition, now)
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
                partition.maybe_advance_high_watermark()
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


class DelayedCommit(Delayed):
    """An answer that is true once the metadata log has it."""

    waits_for_disk = True
    is_large = True

    def __init__(self, deadline_ms: int, response: Message, results: str) -> None:
        super().__init__(deadline_ms)
        self._response = response
        self._results = results

    def expire(self, now: Now) -> Message:
        return self.failed(ErrorCode.REQUEST_TIMED_OUT)

    def failed(self, error: ErrorCode) -> Message:
        """The same answer, but what would have been done was not."""
        results = tuple(
            result if result.error_code else result.replace(error_code=error)
            for result in getattr(self._response, self._results)
        )
        failed = self._response.replace(**{self._results: results})
        if isinstance(failed, UpdateFeaturesResponse):
            return failed.replace(error_code=error)
        return failed
