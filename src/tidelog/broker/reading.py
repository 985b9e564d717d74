"""Reading for a fetch: one pass over a session's partitions, for a consumer or a follower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelog.broker.fetch_session import NO_SESSION, FetchedPartition, FetchSession, pieces
from tidelog.broker.leaders import Leaders
from tidelog.broker.replica_selector import NOBODY, preferred_replica
from tidelog.broker.replication_quota import is_named
from tidelog.env import FileSlice, Now
from tidelog.errors import ErrorCode
from tidelog.log.results import DamagedSegment, OffsetOutOfRange
from tidelog.replica.partition import Partition
from tidelog.slices import Slices
from tidelog.types import Offset
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

READ_COST = 600
TELL_COST = 100
"""Microseconds for one piece of very many partitions (slices.py)."""
READ_COMMITTED = 1
BASE_OFFSET_BYTES = 8
ANY_REPLICA_SINCE = 11
"""Older consumers do not know that followers can serve them."""
LEADERS_SINCE = 16
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""With these, and since that version, an answer says who leads instead."""
NO_LEADER = PartitionData.FIELDS["current_leader"].default
NO_DIVERGENCE = PartitionData.FIELDS["diverging_epoch"].default
"""The very ones that are not encoded."""


class Reading:
    """One pass over a session's partitions, repeated when a long poll is woken."""

    def __init__(
        self,
        broker: Broker,
        session: FetchSession,
        message: FetchRequest,
        version: int,
    ) -> None:
        self.broker = broker
        self.session = session
        self.replica = session.replica
        self.is_follower = is_follower = session.is_follower
        self.is_committed_only = message.isolation_level == READ_COMMITTED
        self.needs_leader = is_follower or version < ANY_REPLICA_SINCE
        self.rack = None if is_follower else message.rack_id
        self.names_leaders = version >= LEADERS_SINCE
        self.leaders: Leaders | None = None
        """Once there is one to name."""
        self.is_full = message.session_epoch <= 0
        self.bytes_max = min(message.max_bytes, broker.config.fetch_max_bytes)
        self.bytes_min = min(message.min_bytes, self.bytes_max)
        self.found: list[tuple[FetchedPartition, PartitionData]] = []
        self.bytes = 0
        self.must_answer = False
        self.is_over_quota = False
        """Replicas that lag get nothing at the moment, if their topic says so."""
        self.is_known = False
        """Whether it is a follower's, and of the process that the metadata knows."""
        self._now_ms = 0

    @property
    def is_enough(self) -> bool:
        return self.bytes >= self.bytes_min or self.must_answer

    def collect(self, now: Now, *, is_first: bool = False) -> None:
        """Read what there is: all partitions of a full fetch, of others what changed. When it is
        done first, it also tells what a follower has."""
        self._begin(now)
        session = self.session
        asked = list(session.partitions.values() if self.is_full else session.changed)
        self._read_some(asked, now, is_first)

    def collect_in_slices(self, now: Now, *, is_first: bool = False) -> Slices[None]:
        self._begin(now)
        known = self.session.partitions
        for some in pieces(list(known.values() if self.is_full else self.session.changed)):
            # The peer may have closed the session meanwhile, or have become another process.
            asked = [one for one in some if known.get(one.key) is one]
            if self.is_follower:
                self._look_who_asks()
            self._read_some(asked, now, is_first)
            yield READ_COST

    def _begin(self, now: Now) -> None:
        self.found, self.bytes, self.must_answer = [], 0, False
        if self.is_follower:
            self._now_ms = now.monotonic_ms
            self.is_over_quota = self.broker.quotas.leader.wait_ms(self._now_ms) > 0
            self._look_who_asks()

    def _look_who_asks(self) -> None:
        epoch = self.broker.metadata.image.broker_epoch(self.replica.replica_id)
        self.is_known = self.replica.replica_epoch == epoch

    def _is_throttled(self, partition: Partition) -> bool:
        throttled = partition.log.config.leader_replication_throttled_replicas
        return (
            bool(throttled)
            and self.replica.replica_id not in partition.isr
            and is_named(throttled, partition.index, partition.node_id)
        )

    @property
    def count(self) -> int:
        """Of the partitions to look at."""
        return len(self.session.partitions if self.is_full else self.session.changed)

    def _read_some(self, some: list[FetchedPartition], now: Now, is_first: bool) -> None:
        session, notes_followers = self.session, is_first and self.is_follower
        for fetched in some:
            data = self._read(fetched, now)
            records = data.records
            size = 0 if records is None else len(records)
            self.bytes += size
            is_refused = data.error_code or data.diverging_epoch.epoch >= 0
            is_news = size or is_refused or data.preferred_read_replica >= 0
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
            if notes_followers and not is_refused:
                # Last: the high watermark that this makes possible is news for the next fetch.
                self._follower_fetched(fetched, now)

    def _is_exhausted(self, fetched: FetchedPartition) -> bool:
        partition = fetched.partition
        if partition is None or fetched.fetch_offset < self._readable_end(partition):
            return partition is None
        # Who is not in sync may join at each fetch, once its broker is no longer fenced.
        return not self.is_follower or self.replica.replica_id in partition.isr

    def _follower_fetched(self, fetched: FetchedPartition, now: Now) -> None:
        partition = fetched.partition
        assert partition is not None
        change = partition.follower_fetched(
            self.replica.replica_id,
            fetch_offset=fetched.fetch_offset,
            log_start_offset=fetched.log_start_offset,
            broker_epoch=self.replica.replica_epoch,
            now=now,
        )
        if change is not None:
            self.broker.alter_isr.submit(partition, change, now)

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
        responses = [
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(partitions))
            for (name, topic_id), partitions in topics.items()
        ]
        return FetchResponse(
            session_id=self.session.id,
            responses=tuple(responses),
            node_endpoints=() if self.leaders is None else self.leaders.endpoints(NodeEndpoint),
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
            # What comes with a divergence is not used by who has to truncate first.
            is_told = data.diverging_epoch.epoch < 0
            fetched.known_high_watermark = data.high_watermark if is_told else -1
            fetched.known_log_start_offset = data.log_start_offset if is_told else -1
            if data.records is not None and len(data.records):
                partition = fetched.partition
                if self.is_follower and partition is not None and self._is_throttled(partition):
                    self.broker.quotas.leader.record(len(data.records), self._now_ms)
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
        if self.is_known:
            data = self._read_for_follower(fetched)
            if data is not None:
                return data
        partition = self.broker.hosted(fetched.topic, fetched.topic_id, fetched.index, now)
        if isinstance(partition, ErrorCode):
            fetched.watch(None)
            refused = self._refused(fetched, partition)
            if partition is ErrorCode.KAFKA_STORAGE_ERROR:
                return refused
            # Kafka says "none" here and "not asked" (null) in every other refusal.
            return refused.replace(aborted_transactions=())
        fetched.watch(partition)
        error = partition.check_leader_epoch(fetched.current_leader_epoch)
        if error is ErrorCode.NONE and self.needs_leader and not partition.is_leader:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is ErrorCode.NONE and self.is_follower:
            error = partition.check_follower(
                self.replica.replica_id, self.replica.replica_epoch, fetched.current_leader_epoch
            )
        if error is not ErrorCode.NONE:
            return self._refused(fetched, error)
        try:
            return self._read_log(fetched, partition)
        except (OSError, DamagedSegment) as failure:
            error = self.broker.hosting.erred(partition, failure, now)
            fetched.watch(None)
            return self._refused(fetched, error)

    def _read_for_follower(self, fetched: FetchedPartition) -> PartitionData | None:
        """What comes next in the log, where nothing is unusual: the hot path. None says nothing:
        the general way finds out what it is, and what to say about it."""
        partition, offset = fetched.partition, fetched.fetch_offset
        if partition is None or partition.leader_epoch != fetched.current_leader_epoch:
            return None
        log, followers = partition.log, partition.followers
        end_offset = log.log_end_offset
        if (
            followers is None
            or self.replica.replica_id not in followers.remote
            or self.broker.hosting.by_id.get((fetched.topic_id, fetched.index)) is not partition
            or log.leader_epochs.latest != fetched.last_fetched_epoch
            or not log.log_start_offset <= offset <= end_offset
            or self.is_over_quota
        ):
            return None
        records: Any = b""
        if offset < end_offset:
            room = max(0, min(fetched.max_bytes, self.bytes_max - self.bytes))
            try:
                found = log.read(offset, end_offset, room, at_least_one=self.bytes == 0)
            except (OSError, DamagedSegment, OffsetOutOfRange):
                return None
            records = b"" if found is None else found
        return PartitionData(
            partition_index=fetched.index,
            error_code=0,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=records,
        )

    def _read_log(self, fetched: FetchedPartition, partition: Partition) -> PartitionData:
        log, offset = partition.log, fetched.fetch_offset
        if offset < log.log_start_offset:
            return self._refused(fetched, ErrorCode.OFFSET_OUT_OF_RANGE)
        diverging = NO_DIVERGENCE
        if fetched.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(fetched.last_fetched_epoch)
            if epoch < 0:
                return self._refused(fetched, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < fetched.last_fetched_epoch or end_offset < offset:
                diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        if offset > log.log_end_offset and diverging.epoch < 0:
            return self._refused(fetched, ErrorCode.OFFSET_OUT_OF_RANGE)
        end_offset = self._readable_end(partition)
        records: Any = b""
        preferred = NOBODY
        if self.rack and diverging.epoch < 0:
            preferred = preferred_replica(self.broker, partition, self.rack, offset)
        is_held_up = self.is_over_quota and self._is_throttled(partition)
        if offset < end_offset and diverging.epoch < 0 and preferred == NOBODY and not is_held_up:
            room = max(0, self.bytes_max - self.bytes)
            try:
                found = log.read(
                    offset,
                    end_offset,
                    min(fetched.max_bytes, room),
                    at_least_one=self.bytes == 0,
                )
            except OffsetOutOfRange:
                return self._refused(fetched, ErrorCode.OFFSET_OUT_OF_RANGE)
            records = b"" if found is None else found
        return PartitionData(
            partition_index=fetched.index,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=diverging,
            aborted_transactions=self._aborted(partition, offset, end_offset, records),
            preferred_read_replica=preferred,
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

    def _refused(self, fetched: FetchedPartition, error: ErrorCode) -> PartitionData:
        leader = NO_LEADER
        if self.names_leaders and error in MOVED:
            self.leaders = self.leaders or Leaders(self.broker)
            found = self.leaders.find(fetched.topic, fetched.topic_id, fetched.index)
            leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
        return PartitionData(
            partition_index=fetched.index,
            error_code=error,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            current_leader=leader,
            aborted_transactions=None,
            records=b"",
        )
