"""Fetch: reads for consumers and followers, with sessions and long polls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.fetch_session import NO_SESSION, FetchSession
from tidelog.broker.reading import Reading
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

AT_ONCE_MAX = 150
"""Partitions that are looked at in one go."""
WOKEN_AT_ONCE_MAX = 30
WOKEN_COST = 50
"""Long polls that one step looks at, and microseconds for each (slices.py)."""
TOPIC_IDS_SINCE = 13


def fetch(
    request: Request, broker: Broker, now: Now
) -> Message | Delayed | Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, FetchRequest)
    session = _session(request, message, broker, now, is_large=False)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session, session_id=NO_SESSION, responses=())
    reading = Reading(broker, session, message, request.version)
    if len(session.changed) > AT_ONCE_MAX:
        return _read_in_slices(reading, message, now)
    reading.collect(now, is_first=True)
    if message.max_wait_ms <= 0 or not session.partitions or reading.is_enough:
        return reading.respond()
    return DelayedFetch(reading, now.monotonic_ms + message.max_wait_ms)


def fetch_in_slices(request: Request, broker: Broker, now: Now) -> Slices[Message | Delayed]:
    """The same for a request that names very many partitions."""
    message = request.message
    assert isinstance(message, FetchRequest)
    session = _session(request, message, broker, now, is_large=True)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session, session_id=NO_SESSION, responses=())
    yield from session.update_in_slices(message)
    broker.fetch_sessions.drop_if_empty(session)
    reading = Reading(broker, session, message, request.version)
    return (yield from _read_in_slices(reading, message, now))


def _session(
    request: Request, message: FetchRequest, broker: Broker, now: Now, *, is_large: bool
) -> FetchSession | ErrorCode:
    replica = message.replica_state
    if message.replica_id >= 0:
        replica = ReplicaState(replica_id=message.replica_id)
    return broker.fetch_sessions.resolve(
        message,
        uses_topic_ids=request.version >= TOPIC_IDS_SINCE,
        replica=replica,
        now_ms=now.monotonic_ms,
        is_large=is_large,
    )


def _read_in_slices(reading: Reading, message: FetchRequest, now: Now) -> Slices[Message | Delayed]:
    yield from reading.collect_in_slices(now, is_first=True)
    if message.max_wait_ms <= 0 or not reading.session.partitions or reading.is_enough:
        return (yield from reading.respond_in_slices())
    delayed = DelayedFetch(reading, now.monotonic_ms + message.max_wait_ms)
    delayed.wake()  # for what has changed since it was read
    return delayed


def look_at_all(woken: dict[DelayedFetch, None], now: Now) -> Slices[None]:
    """Very many long polls of what has changed."""
    for delayed in woken:
        delayed.maybe_complete(now)
        yield WOKEN_COST


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
        """Something changed. The node looks at it once, when this step's appends are done, or
        those of this turn."""
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
