"""A fetcher keeps the logs of some partitions up with one leader: it asks for what comes next as
soon as it has what it asked for, one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.fetcher_session import Answers, FetcherSession, Key
from tidelog.broker.followed import Followed, State
from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.replica.partition import Partition
from tidelog.runtime.peers import Peer
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

LATEST, EARLIEST = -1, -2
NAMED_MAX = 500
"""Partitions that one request names; others have their turn in the next, which comes at once."""
INTERRUPT_MS = 20
"""How long a request may still wait for records once there is more to ask for."""
CALM_MS = 500
"""After an interrupt more may come: requests are short until nobody has come for so long. And so
long a short one may be without an answer, if somebody waits to be asked for in the next."""
RESTARTS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
"""After these a full request mends all."""
AT_ONCE_BYTES_MAX = 2 << 20
AT_ONCE_MAX = 100
"""An answer with more than so many bytes or partitions is taken in steps."""
BYTES_A_MICROSECOND = 1000
ANSWER_COST = 30
"""Microseconds for a partition without its records (slices.py)."""


Learned = tuple[Key, Followed, PartitionData]
"""What the leader told of a partition besides records."""


class Fetcher:
    """All partitions that follow one leader, or their share (num.replica.fetchers)."""

    def __init__(self, broker: Broker, leader_id: int, index: int) -> None:
        self.leader_id = leader_id
        self.index = index
        self._broker = broker
        self._followed: dict[Key, Followed] = {}
        self._lost: dict[Key, Followed] = {}
        self._delayed: dict[Key, Followed] = {}
        """Those of them that are out of range, and those that wait for their time."""
        self._session = FetcherSession()
        self._changed: dict[Key, None] = {}
        """Of which the next request may have to say something new."""
        self._is_busy = False
        """A request is under way, or its answer is being taken in."""
        self._peer: Peer | None = None
        self._brokers: object = None
        """As they were when that one was found."""
        self._timer_ms: int | None = None
        self._interrupt_ms: int | None = None
        self._is_interrupting = False
        self._added_ms = 0
        self._is_restless = False
        """Since an interrupt, while others are still added."""
        self._asked_ms = self._wait_ms = 0
        """When the last request left, and how long the leader may wait with its answer."""

    def __len__(self) -> int:
        return len(self._followed)

    def state_of(self, partition: Partition) -> State | None:
        followed = self._followed.get((partition.topic_id, partition.index))
        return None if followed is None else followed.state

    def add(self, partition: Partition, now: Now) -> None:
        """From now on, or anew in another epoch: answers to what was asked before do not count."""
        key = partition.topic_id, partition.index
        self.remove(partition)
        bytes_max = self._broker.config.replica_fetch_max_bytes
        followed = self._followed[key] = Followed(partition, bytes_max)
        if partition in self._broker.fetchers.cut:
            followed.state = State.TRUNCATED  # in the epoch before, and the disk may not know
        self._note(key, now)
        self._ask_soon(now)  # when this step has told all there is to follow

    def remove(self, partition: Partition) -> None:
        key = partition.topic_id, partition.index
        self._lost.pop(key, None)
        self._delayed.pop(key, None)
        if self._followed.pop(key, None) is not None:
            self._changed[key] = None
            if not self._followed and not self._is_busy:
                self._wake_at(self._asked_ms)  # at once: there may be nothing left to do

    def _note(self, key: Key, now: Now) -> None:
        """What is to be done about a partition, now that its state may be another."""
        followed = self._followed[key]
        self._changed[key] = None
        if followed.state is State.OUT_OF_RANGE:
            self._lost[key] = followed
        elif followed.state is State.DELAYED:
            self._delayed[key] = followed
            self._wake_at(followed.due_ms)
        elif followed.state is State.TRUNCATED:
            self._fetch_when_durable(key, followed, now)

    # Asking.

    def _ask_soon(self, now: Now) -> None:
        """For a partition that the request under way did not ask for."""
        self._added_ms = now.monotonic_ms
        if not self._is_busy:
            self._wake_at(now.monotonic_ms)
        elif self._interrupt_ms is None:
            self._interrupt_ms = now.monotonic_ms + INTERRUPT_MS
            self._broker.schedule.at(self._interrupt_ms, self._interrupt)

    def _ask(self, now: Now) -> None:
        """For what comes next, if there is anything to ask for."""
        if self._is_busy:
            return
        if self._lost:
            self._ask_where(list(self._lost.values()), LATEST, now)
            return
        session, followed = self._session, self._followed
        keys = list(followed if session.is_full else self._changed)
        later = keys[NAMED_MAX:]
        self._changed = dict.fromkeys(later)
        topics, forgotten = session.tell(
            [(key, followed[key].wanted if key in followed else None) for key in keys[:NAMED_MAX]]
        )
        if session.told or forgotten:
            config = self._broker.config
            self._wait_ms = 0 if later else self._patience_ms(now)
            request = FetchRequest(
                replica_state=ReplicaState(
                    replica_id=self._broker.node_id, replica_epoch=self._broker.broker_epoch
                ),
                max_wait_ms=self._wait_ms,
                min_bytes=config.replica_fetch_min_bytes,
                max_bytes=config.replica_fetch_response_max_bytes,
                session_id=session.id,
                session_epoch=session.epoch,
                topics=topics,
                forgotten_topics_data=forgotten,
            )
            self._send(request, self._answered, now)
        elif not followed:
            if self._peer is not None:
                self._peer.close(now)
                self._peer = None
            self._broker.fetchers.idle(self)

    def _patience_ms(self, now: Now) -> int:
        """Hundreds may be added one by one, as when a topic is made: to hang up for each, and name
        all of them anew, would take longer than all else. And who was refused for a moment, as by
        a leader that has yet to hear that it is one, does not wait until others have news."""
        wait_ms = self._broker.config.replica_fetch_wait_max_ms
        if now.monotonic_ms >= self._added_ms + CALM_MS:
            self._is_restless = False
        if self._is_restless:
            wait_ms = min(wait_ms, INTERRUPT_MS)
        if self._timer_ms is not None:
            wait_ms = min(wait_ms, max(0, self._timer_ms - now.monotonic_ms))
        return wait_ms

    def _send(
        self, request: Message, then: Callable[[Message | PeerFailure, Now], None], now: Now
    ) -> None:
        broker = self._broker
        if broker.metadata.image.brokers is not self._brokers or self._peer is None:
            self._find_leader(now)
        if self._peer is None or broker.broker_epoch < 0:
            # Not before we are registered: the leader must know which process it is that fetches.
            self._failed(now)
            return
        self._is_busy, self._asked_ms = True, now.monotonic_ms
        self._peer.send(request, then, now, broker.config.replica_socket_timeout_ms)

    def _find_leader(self, now: Now) -> None:
        """It may have another address, or none."""
        broker = self._broker
        self._brokers = broker.metadata.image.brokers
        leader = self._brokers.get(self.leader_id)
        point = None if leader is None else leader.endpoint(broker.config.inter_broker_name)
        client_id = f"broker-{broker.node_id}-fetcher-{self.index}"
        before, self._peer = self._peer, None
        if point is not None:
            self._peer = broker.runtime.peers.peer(point.host, point.port, client_id)
        if before is not None and before is not self._peer:
            before.close(now)

    def _interrupt(self, now: Now) -> None:
        """Somebody is to be followed who was not there when the request left that now waits for
        records, perhaps of nobody else: do not wait with it."""
        self._interrupt_ms = None
        has_news = any(key in self._followed for key in self._changed)
        if not self._is_busy or not has_news or self._peer is None or not self._peer.in_flight:
            return
        # A short request is answered in a moment, if there is anybody at the other end.
        patience_ms = INTERRUPT_MS if self._wait_ms > INTERRUPT_MS else CALM_MS
        if now.monotonic_ms < self._asked_ms + patience_ms:
            # We may have asked anew since: who follows hundreds in a long job would not get on.
            due_ms = min(self._asked_ms + patience_ms, now.monotonic_ms + INTERRUPT_MS)
            self._interrupt_ms = due_ms
            self._broker.schedule.at(due_ms, self._interrupt)
            return
        self._is_interrupting = self._is_restless = True
        self._peer.close(now)

    def _failed(self, now: Now) -> None:
        """Nobody knows what the leader has heard of it."""
        self._session.restart()
        if self._is_interrupting or not self._followed:
            self._is_interrupting = False
            self._ask(now)
        else:
            self._delay_all(now)

    def _delay_all(self, now: Now) -> None:
        backoff_ms = self._broker.config.replica_fetch_backoff_ms
        self._lost.clear()
        for key, followed in self._followed.items():
            if followed.state in (State.FETCHING, State.OUT_OF_RANGE):
                followed.delay(backoff_ms, now)
                self._note(key, now)

    # Answers.

    def _answered(self, answer: Message | PeerFailure, now: Now) -> None:
        self._is_busy = False
        if not isinstance(answer, FetchResponse):
            self._failed(now)
            return
        if answer.error_code:
            error = ErrorCode.of(answer.error_code)
            self._session.refused(error)
            if error not in RESTARTS:
                self._delay_all(now)
            self._ask(now)
            return
        answers = self._session.answered(answer.session_id, answer.responses)
        if answers is None:
            self._ask(now)
        elif _is_small(answers):
            self._finish([self._take(key, data, now) for key, data in answers], now)
        else:
            # The frame is good for this step only.
            copies = [(key, data.replace(records=bytes(_records(data)))) for key, data in answers]
            self._is_busy = True
            self._broker.jobs.start(self._take_in_slices(copies, now), now)

    def _take_in_slices(self, answers: Answers, now: Now) -> Slices[None]:
        taken, fresh = [], self._broker.jobs.fresh
        for key, data in answers:
            taken.append(self._take(key, data, fresh(now)))
            yield ANSWER_COST + len(_records(data)) // BYTES_A_MICROSECOND
        self._is_busy = False
        self._finish(taken, fresh(now))

    def _take(self, key: Key, data: PartitionData, now: Now) -> Learned | None:
        followed, told = self._followed.get(key), self._session.told[key]
        if followed is None or not followed.is_waiting_for(told):
            return None  # it has been lost meanwhile, or has begun a new epoch
        records, own = memoryview(_records(data)), followed.partition.log
        is_good = followed.answered(data, records, self._broker, now)
        if is_good and len(records):
            followed.throttle(data, len(records), self._broker, now)
        if is_good and data.log_start_offset > own.log_start_offset:
            followed.learned(data)  # the next request tells that it is done
        is_news = not is_good or len(records) or own.log_start_offset != told.log_start_offset
        if is_news and self._followed.get(key) is followed:
            self._note(key, now)
        return (key, followed, data) if is_good else None

    def _finish(self, taken: list[Learned | None], now: Now) -> None:
        """The next request leaves first: others wait for what it acknowledges."""
        self._ask(now)
        for learned in taken:
            if learned is not None:
                key, followed, data = learned
                if self._followed.get(key) is followed:
                    followed.learned(data)

    # Out of range.

    def _ask_where(self, lost: list[Followed], timestamp: int, now: Now) -> None:
        """The leader's log ends, or starts."""
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for followed in lost[:NAMED_MAX]:
            topics.setdefault(followed.partition.topic, []).append(
                ListOffsetsPartition(
                    partition_index=followed.partition.index,
                    current_leader_epoch=followed.leader_epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._broker.node_id,
            topics=tuple(
                ListOffsetsTopic(name=name, partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )
        self._wait_ms = 0
        self._send(request, partial(self._located, lost[:NAMED_MAX], timestamp), now)

    def _located(
        self, lost: list[Followed], timestamp: int, answer: Message | PeerFailure, now: Now
    ) -> None:
        self._is_busy = False
        if not isinstance(answer, ListOffsetsResponse):
            self._failed(now)
            return
        found = {
            (topic.name, data.partition_index): data
            for topic in answer.topics
            for data in topic.partitions
        }
        still_lost = []
        for followed in lost:
            partition = followed.partition
            key = partition.topic_id, partition.index
            if self._lost.get(key) is not followed:
                continue
            data = found.get((partition.topic, partition.index))
            offset = -1 if data is None or data.error_code else data.offset
            if offset < 0:
                followed.delay(self._broker.config.replica_fetch_backoff_ms, now)
            elif timestamp == EARLIEST:
                followed.leader_starts_at(offset, self._broker, now)
            elif not followed.leader_ends_at(offset, self._broker, now):
                still_lost.append(followed)
                continue
            del self._lost[key]
            if key in self._followed:
                self._note(key, now)
        if still_lost:
            self._ask_where(still_lost, EARLIEST, now)
        else:
            self._ask(now)

    # Time and disk.

    def _fetch_when_durable(self, key: Key, followed: Followed, now: Now) -> None:
        def written(now: Now) -> None:
            if followed.state is State.TRUNCATED:
                followed.state = State.FETCHING
                self._changed[key] = None
                self._ask_soon(now)

        self._broker.fetchers.when_durable(followed.partition, written, now)

    def _wake_at(self, time_ms: int) -> None:
        if self._timer_ms is None or time_ms < self._timer_ms:
            self._timer_ms = time_ms
            self._broker.schedule.at(time_ms, partial(self._woken, time_ms))

    def _woken(self, time_ms: int, now: Now) -> None:
        if time_ms != self._timer_ms:
            return  # an earlier one has taken its place
        self._timer_ms = None
        for key, followed in list(self._delayed.items()):
            if followed.due_ms <= now.monotonic_ms:
                del self._delayed[key]
                followed.state = State.FETCHING
                self._changed[key] = None
        if self._delayed:
            self._wake_at(min(followed.due_ms for followed in self._delayed.values()))
        self._ask(now)


def _records(data: PartitionData) -> memoryview | bytes | bytearray:
    return b"" if data.records is None else data.records


def _is_small(answers: Answers) -> bool:
    size = 0
    for _, data in answers:
        size += len(_records(data))
    return size <= AT_ONCE_BYTES_MAX and len(answers) <= AT_ONCE_MAX
