"""Fetch: reads for consumers and followers, with sessions and long polls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelog.broker.fetch_session import NO_SESSION, FetchedPartition, FetchSession, pieces
from tidelog.env import FileSlice, Now
from tidelog.errors import ErrorCode
from tidelog.log.results import DamagedSegment, OffsetOutOfRange
from tidelog.replica.partition import Partition
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

AT_ONCE_MAX = 150
"""Partitions that are looked at in one go; READ_COST and TELL_COST are microseconds for one
piece of more than that (slices.py)."""
READ_COST = 600
TELL_COST = 100
READ_COMMITTED = 1
BASE_OFFSET_BYTES = 8
TOPIC_IDS_SINCE = 13
ANY_REPLICA_SINCE = 11
"""Older consumers do not know that followers can serve them."""


def fetch(
    request: Request, broker: Broker, now: Now
) -> Message | Delayed | Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, FetchRequest)
    replica_id = max(message.replica_id, message.replica_state.replica_id)
    session = broker.fetch_sessions.resolve(
        message,
        uses_topic_ids=request.version >= TOPIC_IDS_SINCE,
        is_follower=replica_id >= 0,
        now_ms=now.monotonic_ms,
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session, session_id=NO_SESSION, responses=())
    reading = Reading(broker, session, message, request.version, replica_id=replica_id)
    if len(session.changed) > AT_ONCE_MAX:
        return _read_in_slices(reading, message, now)
    reading.collect(now)
    if message.max_wait_ms <= 0 or not session.partitions or reading.is_enough:
        return reading.respond()
    return DelayedFetch(reading, now.monotonic_ms + message.max_wait_ms)


def fetch_in_slices(request: Request, broker: Broker, now: Now) -> Slices[Message | Delayed]:
    """The same for a request that names very many partitions."""
    message = request.message
    assert isinstance(message, FetchRequest)
    replica_id = max(message.replica_id, message.replica_state.replica_id)
    session = broker.fetch_sessions.resolve(
        message,
        uses_topic_ids=request.version >= TOPIC_IDS_SINCE,
        is_follower=replica_id >= 0,
        now_ms=now.monotonic_ms,
        is_large=True,
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session, session_id=NO_SESSION, responses=())
    yield from session.update_in_slices(message)
    broker.fetch_sessions.drop_if_empty(session)
    reading = Reading(broker, session, message, request.version, replica_id=replica_id)
    return (yield from _read_in_slices(reading, message, now))


def _read_in_slices(reading: Reading, message: FetchRequest, now: Now) -> Slices[Message | Delayed]:
    yield from reading.collect_in_slices(now)
    if message.max_wait_ms <= 0 or not reading.session.partitions or reading.is_enough:
        return (yield from reading.respond_in_slices())
    delayed = DelayedFetch(reading, now.monotonic_ms + message.max_wait_ms)
    delayed.wake()  # for what has changed since it was read
    return delayed


class DelayedFetch(Delayed):
    """A long poll: completed by the append that satisfies it."""

    def __init__(self, reading: Reading, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.reading = reading
        self.session = reading.session
        self.session_epoch = reading.session.expected_epoch
        self.session.waiting = self
        self._is_reading = self._is_woken = self._must_answer = False
        """Of very many partitions, in pieces; meanwhile it was woken again, or its time is up."""

    def wake(self) -> None:
        """Something changed. The node looks at it once, when this step's appends are done."""
        self.reading.broker.woken[self] = None

    def maybe_complete(self, now: Now) -> None:
        if self.is_done:
            return
        if self.reading.count > AT_ONCE_MAX:
            self._read_in_slices(now)
            return
        self.reading.collect(now)
        if self.reading.is_enough:
            self.reading.broker.purgatory.complete(self, self._answer())

    def expire(self, now: Now) -> Message | None:
        if self.reading.count > AT_ONCE_MAX or self._is_reading:
            self._must_answer = True
            self._read_in_slices(now)
            return None
        self.reading.collect(now)
        return self._answer()

    def _read_in_slices(self, now: Now) -> None:
        self._is_woken = True
        if not self._is_reading:
            self._is_reading = True
            self.reading.broker.jobs.start(self._complete_in_slices(now), now)

    def _complete_in_slices(self, now: Now) -> Slices[None]:
        try:
            while self._is_woken and not self.is_done:
                self._is_woken = False
                yield from self.reading.collect_in_slices(now)
                if self.reading.is_enough or self._must_answer:
                    if self.session.expected_epoch == self.session_epoch:
                        answer = yield from self.reading.respond_in_slices()
                    else:
                        answer = self._answer()
                    self.is_large = True
                    self.reading.broker.purgatory.complete(self, answer)
        finally:
            self._is_reading = False

    def _answer(self) -> FetchResponse:
        if self.session.expected_epoch != self.session_epoch:
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return FetchResponse(error_code=code, session_id=NO_SESSION, responses=())
        return self.reading.respond()

    def forget(self) -> None:
        if self.session.waiting is self:
            self.session.waiting = None
        if self.session.id == NO_SESSION:
            self.session.close()


class Reading:
    """One pass over a session's partitions, repeated when a long poll is woken."""

    def __init__(
        self,
        broker: Broker,
        session: FetchSession,
        message: FetchRequest,
        version: int,
        *,
        replica_id: int,
    ) -> None:
        self.broker = broker
        self.session = session
        self.replica_id = replica_id
        self.is_follower = is_follower = replica_id >= 0
        self.is_committed_only = message.isolation_level == READ_COMMITTED
        self.needs_leader = is_follower or version < ANY_REPLICA_SINCE
        self.is_full = message.session_epoch <= 0
        self.bytes_max = min(message.max_bytes, broker.config.fetch_max_bytes)
        self.bytes_min = min(message.min_bytes, self.bytes_max)
        self.found: list[tuple[FetchedPartition, PartitionData]] = []
        self.bytes = 0
        self.must_answer = False

    @property
    def is_enough(self) -> bool:
        return self.bytes >= self.bytes_min or self.must_answer

    def collect(self, now: Now) -> None:
        """Read what there is: all partitions of a full fetch, of others what changed."""
        self.found, self.bytes, self.must_answer = [], 0, False
        session = self.session
        self._read_some(list(session.partitions.values() if self.is_full else session.changed), now)

    def collect_in_slices(self, now: Now) -> Slices[None]:
        self.found, self.bytes, self.must_answer = [], 0, False
        known = self.session.partitions
        asked = list(known.values() if self.is_full else self.session.changed)
        for some in pieces(asked):
            # The peer may have closed the session meanwhile.
            self._read_some([one for one in some if known.get(one.key) is one], now)
            yield READ_COST

    @property
    def count(self) -> int:
        """Of the partitions to look at."""
        return len(self.session.partitions if self.is_full else self.session.changed)

    def _read_some(self, some: list[FetchedPartition], now: Now) -> None:
        session = self.session
        for fetched in some:
            data = self._read(fetched, now)
            records = data.records
            size = 0 if records is None else len(records)
            self.bytes += size
            is_news = bool(size) or data.error_code or data.diverging_epoch.epoch >= 0
            if not size and is_news:
                self.must_answer = True
            if is_news or self._is_watermark_news(fetched, data):
                self.found.append((fetched, data))
            elif self.is_full:
                self.found.append((fetched, data))
                session.changed.pop(fetched, None)
            elif self._is_exhausted(fetched):
                # Not read for want of room is not the same as having nothing.
                session.changed.pop(fetched, None)

    def _is_exhausted(self, fetched: FetchedPartition) -> bool:
        partition = fetched.partition
        return partition is None or fetched.fetch_offset >= self._readable_end(partition)

    @staticmethod
    def _is_watermark_news(fetched: FetchedPartition, data: PartitionData) -> bool:
        return (
            data.high_watermark != fetched.known_high_watermark
            or data.log_start_offset != fetched.known_log_start_offset
        )

    def respond(self, told: dict[Any, list[PartitionData]] | None = None) -> FetchResponse:
        """Tell what was found, and remember that it was told."""
        topics: dict[Any, list[PartitionData]] = {} if told is None else told
        self._tell(self.found, topics)
        if self.session.id == NO_SESSION:
            self.session.close()
        return FetchResponse(
            session_id=self.session.id,
            responses=tuple(
                FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(partitions))
                for (name, topic_id), partitions in topics.items()
            ),
        )

    def respond_in_slices(self) -> Slices[FetchResponse]:
        topics: dict[Any, list[PartitionData]] = {}
        for some in pieces(self.found):
            self._tell(some, topics)
            yield TELL_COST
        if self.session.id == NO_SESSION:
            yield from self.session.close_in_slices()
        self.found = []  # all of it is told
        return self.respond(topics)

    def _tell(
        self,
        some: Sequence[tuple[FetchedPartition, PartitionData]],
        topics: dict[Any, list[PartitionData]],
    ) -> None:
        for fetched, data in some:
            topics.setdefault((fetched.topic, fetched.topic_id), []).append(data)
            fetched.known_high_watermark = data.high_watermark
            fetched.known_log_start_offset = data.log_start_offset
            if data.records is not None and len(data.records):
                # Behind the others, but still with them: there may be more to read.
                self.session.changed.pop(fetched, None)
                self.session.changed[fetched] = None

    def _readable_end(self, partition: Partition) -> Offset:
        if self.is_follower:
            return partition.log.log_end_offset
        if self.is_committed_only:
            return partition.last_stable_offset
        return partition.high_watermark

    def _read(self, fetched: FetchedPartition, now: Now) -> PartitionData:
        partition = self.broker.hosted(fetched.topic, fetched.topic_id, fetched.index, now)
        if isinstance(partition, ErrorCode):
            fetched.watch(None)
            refused = _refused(fetched.index, partition)
            if partition is ErrorCode.KAFKA_STORAGE_ERROR:
                return refused
            # Kafka says "none" here and "not asked" (null) in every other refusal.
            return refused.replace(aborted_transactions=())
        fetched.watch(partition)
        error = partition.check_leader_epoch(fetched.current_leader_epoch)
        if error is ErrorCode.NONE and self.needs_leader and not partition.is_leader:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is ErrorCode.NONE and self.is_follower:
            error = self._check_replica(fetched, partition)
        if error is not ErrorCode.NONE:
            return _refused(fetched.index, error)
        try:
            return self._read_log(fetched, partition)
        except (OSError, DamagedSegment) as failure:
            error = self.broker.hosting.erred(partition, failure, now)
            fetched.watch(None)
            return _refused(fetched.index, error)

    def _check_replica(self, fetched: FetchedPartition, partition: Partition) -> ErrorCode:
        """Whoever is no replica may be one soon, if its metadata is newer than ours."""
        others = [replica for replica in partition.replicas if replica != partition.node_id]
        if self.replica_id in others:
            return ErrorCode.NONE
        if fetched.current_leader_epoch >= 0:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _read_log(self, fetched: FetchedPartition, partition: Partition) -> PartitionData:
        log, offset = partition.log, fetched.fetch_offset
        if offset < log.log_start_offset:
            return _refused(fetched.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        diverging = EpochEndOffset()
        if fetched.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(fetched.last_fetched_epoch)
            if epoch < 0:
                return _refused(fetched.index, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < fetched.last_fetched_epoch or end_offset < offset:
                diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        if offset > log.log_end_offset and diverging.epoch < 0:
            return _refused(fetched.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        end_offset = self._readable_end(partition)
        records: Any = b""
        if offset < end_offset and diverging.epoch < 0:
            room = max(0, self.bytes_max - self.bytes)
            try:
                found = log.read(
                    offset,
                    end_offset,
                    min(fetched.max_bytes, room),
                    at_least_one=self.bytes == 0,
                )
            except OffsetOutOfRange:
                return _refused(fetched.index, ErrorCode.OFFSET_OUT_OF_RANGE)
            records = b"" if found is None else found
        return PartitionData(
            partition_index=fetched.index,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=diverging,
            aborted_transactions=self._aborted(partition, offset, end_offset, records),
            records=records,
        )

    def _aborted(
        self, partition: Partition, start: Offset, end: Offset, records: FileSlice | bytes
    ) -> tuple[AbortedTransaction, ...] | None:
        if not self.is_committed_only:
            return None
        if not isinstance(records, FileSlice):
            return ()
        following = records.file.read(records.position + records.size, BASE_OFFSET_BYTES)
        if len(following) == BASE_OFFSET_BYTES:
            # A reader far behind wants those of what it gets, not all there ever were.
            end = min(end, int.from_bytes(following, "big"))
        return tuple(
            AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
            for entry in partition.log.aborted_transactions(start, end)
        )


def _refused(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )
