"""Incremental fetch sessions (KIP-227): a peer names its partitions once, then only changes.

A session knows which of its partitions changed since it was last answered, because partitions
tell it: an idle partition costs a fetch nothing, however many there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidelog.env import Rng
from tidelog.errors import ErrorCode
from tidelog.replica.partition import Partition, Watcher
from tidelog.slices import Slices
from tidelog.types import ZERO_UUID, Offset, Uuid
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, ReplicaState

if TYPE_CHECKING:
    from tidelog.broker.handlers.fetch import DelayedFetch

EVICTABLE_AFTER_MS = 120_000
"""A session that was not used for this long makes room for a new one."""
EPOCH_MAX = (1 << 31) - 1
PIECE = 50
UPDATE_COST = 150
"""Partitions that are one piece of work (slices.py), and microseconds for it."""
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

T = TypeVar("T")
PartitionKey = tuple[str | Uuid, int]
"""A topic's name, or its id where the request has ids; and the partition's index."""


class FetchedPartition:
    """One partition of a session: what the peer asks for, and what it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "known_high_watermark",
        "known_log_start_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, session: FetchSession, topic: str, topic_id: Uuid, index: int) -> None:
        self.session = session
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.current_leader_epoch = -1
        self.known_high_watermark: Offset = -1
        self.known_log_start_offset: Offset = -1
        self.partition: Partition | None = None

    @property
    def key(self) -> PartitionKey:
        return (self.topic if self.topic_id == ZERO_UUID else self.topic_id), self.index

    def update(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        if asked.current_leader_epoch != self.current_leader_epoch:
            # It has dropped what it was told meanwhile of the epoch before.
            self.known_high_watermark = self.known_log_start_offset = -1
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset
        self.max_bytes = asked.partition_max_bytes

    def watch(self, partition: Partition | None) -> None:
        """Be told when this partition changes, instead of the one before."""
        if partition is self.partition:
            return
        if self.partition is not None:
            self._watchers(self.partition).pop(self, None)
        self.partition = partition
        if partition is not None:
            self._watchers(partition)[self] = None

    def _watchers(self, partition: Partition) -> dict[Watcher, None]:
        return partition.replica_watchers if self.session.is_follower else partition.watchers

    def partition_changed(self) -> None:
        session = self.session
        if self not in session.changed:
            self.watermark_changed()
        if session.waiting is not None:
            session.waiting.wake()

    def watermark_changed(self) -> None:
        session = self.session
        if self not in session.changed:
            if session.is_follower and self.partition is not None:
                self._touch(self.partition, session)
            session.changed[self] = None

    @staticmethod
    def _touch(partition: Partition, session: FetchSession) -> None:
        """Until now it was not looked at, because the follower had all there was: but every
        fetch of the session was one of this partition too."""
        if partition.followers is not None:
            partition.followers.touched(
                session.replica.replica_id, session.replica.replica_epoch, session.last_used_ms
            )


class FetchSession:
    """The partitions of one peer, and which of them to look at."""

    def __init__(
        self, session_id: int, *, uses_topic_ids: bool, replica: ReplicaState, now_ms: int
    ) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.replica = replica
        """Of its last request."""
        self.is_follower = replica.replica_id >= 0
        self.expected_epoch = 1
        self.created_ms = self.last_used_ms = now_ms
        self.partitions: dict[PartitionKey, FetchedPartition] = {}
        self.changed: dict[FetchedPartition, None] = {}
        """Those that may have something new to tell, first who was not served for longest."""
        self.waiting: DelayedFetch | None = None

    @property
    def worth(self) -> tuple[bool, int]:
        """What a session saves: a follower's more than a consumer's, a large one more."""
        return self.is_follower, len(self.partitions)

    def update(self, request: FetchRequest) -> None:
        """Take in the partitions that a request names, and let go of those that it forgets."""
        for topic in request.topics:
            topic_id = topic.topic_id
            name: str | Uuid = topic.topic if topic_id == ZERO_UUID else topic_id
            for asked in topic.partitions:
                key = name, asked.partition
                fetched = self.partitions.get(key)
                if fetched is None:
                    fetched = FetchedPartition(self, topic.topic, topic_id, asked.partition)
                    self.partitions[key] = fetched
                fetched.update(asked)
                self.changed[fetched] = None
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic if forgotten.topic_id == ZERO_UUID else forgotten.topic_id
            for index in forgotten.partitions:
                self._drop((name, index))

    def _drop(self, key: PartitionKey) -> None:
        fetched = self.partitions.pop(key, None)
        if fetched is not None:
            fetched.watch(None)
            self.changed.pop(fetched, None)

    def close(self) -> None:
        for key in list(self.partitions):
            self._drop(key)

    def close_in_slices(self) -> Slices[None]:
        for some in pieces(list(self.partitions)):
            for key in some:
                self._drop(key)
            yield UPDATE_COST

    def update_in_slices(self, request: FetchRequest) -> Slices[None]:
        """As update does, for a request that names very many partitions."""
        empty = request.replace(topics=(), forgotten_topics_data=())
        for topic in request.topics:
            for some in pieces(topic.partitions):
                self.update(empty.replace(topics=(topic.replace(partitions=some),)))
                yield UPDATE_COST
        for forgotten in request.forgotten_topics_data:
            for indexes in pieces(forgotten.partitions):
                one = forgotten.replace(partitions=indexes)
                self.update(empty.replace(forgotten_topics_data=(one,)))
                yield UPDATE_COST


def pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The same items, a few at a time; once none, if there are none."""
    for start in range(0, len(items) or 1, PIECE):
        yield items[start : start + PIECE]


class FetchSessions:
    """All sessions of a broker, at most `slots`; beyond that new ones replace old ones."""

    def __init__(self, slots: int, rng: Rng) -> None:
        self.slots = slots
        self._rng = rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def resolve(
        self,
        request: FetchRequest,
        *,
        uses_topic_ids: bool,
        replica: ReplicaState,
        now_ms: int,
        is_large: bool = False,
    ) -> FetchSession | ErrorCode:
        """The session that a request means: a new, an old or a passing one. It is updated by the
        request, unless that is large: then update_in_slices and drop_if_empty are to follow."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._remove(request.session_id)
            session_id = NO_SESSION
            if request.session_epoch == INITIAL_EPOCH and request.topics:
                self._drop_earlier_lives(replica)
                size = sum(len(topic.partitions) for topic in request.topics)
                session_id = self._free_id(replica.replica_id >= 0, size, now_ms)
            session = FetchSession(
                session_id, uses_topic_ids=uses_topic_ids, replica=replica, now_ms=now_ms
            )
            if session_id != NO_SESSION:
                self._sessions[session_id] = session
        else:
            found = self._continue(request, uses_topic_ids)
            if isinstance(found, ErrorCode):
                return found
            session = found
        session.last_used_ms = now_ms
        session.replica = replica
        if not is_large:
            session.update(request)
            if not session.partitions:
                self.drop_if_empty(session)
        return session

    def drop_if_empty(self, session: FetchSession) -> None:
        if session.id != NO_SESSION and not session.partitions:
            self._remove(session.id)
            session.id = NO_SESSION

    def _continue(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.expected_epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.expected_epoch = (
            1 if session.expected_epoch == EPOCH_MAX else (session.expected_epoch + 1)
        )
        self._sessions.move_to_end(session.id)
        return session

    def _drop_earlier_lives(self, replica: ReplicaState) -> None:
        """A follower that was started again does not go on with its old sessions, but partitions
        would tell them of every record."""
        if replica.replica_id >= 0:
            for session in list(self._sessions.values()):
                if (
                    session.replica.replica_id == replica.replica_id
                    and session.replica.replica_epoch < replica.replica_epoch
                ):
                    self._remove(session.id)

    def _free_id(self, is_follower: bool, size: int, now_ms: int) -> int:
        if len(self._sessions) >= self.slots and not self._evict(is_follower, size, now_ms):
            return NO_SESSION
        while (session_id := self._rng.randrange(1, EPOCH_MAX)) in self._sessions:
            pass
        return session_id

    def _evict(self, is_follower: bool, size: int, now_ms: int) -> bool:
        """Who has not fetched for long goes first. Else the smallest of those that have had
        their time, unless it is worth more than the newcomer; to a follower every consumer
        gives way."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTABLE_AFTER_MS:
            self._remove(oldest.id)
            return True
        evictable = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTABLE_AFTER_MS
            or (is_follower and not session.is_follower)
        ]
        if not evictable:
            return False
        least = min(evictable, key=lambda session: session.worth)
        if least.worth > (is_follower, size):
            return False
        self._remove(least.id)
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
