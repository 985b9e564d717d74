"""A node is one state machine: `step(event, now) -> effects`.

No sockets, clocks, threads or chance in here: `server/` drives it with real ones, `sim/` with
virtual ones. Effects start in the order of the list, and none waits for another.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import assert_never

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.produce import Disconnect
from tidelog.broker.purgatory import Delayed
from tidelog.broker.router import HANDLERS
from tidelog.env import DiskFull, Now
from tidelog.events import (
    CloseConnection,
    ConnectionId,
    Disconnected,
    Effect,
    Event,
    Flushed,
    PauseReading,
    Received,
    ResumeReading,
    Send,
    Ticked,
)
from tidelog.wire.declare import Message
from tidelog.wire.headers import ResponseHeader
from tidelog.wire.request import Request, Served, encode_response

log = logging.getLogger("tidelog.node")

NO_MESSAGE = ResponseHeader(correlation_id=0)
WAITING_MAX = 1000
"""Answers that may wait in one connection's row: beyond that we stop reading from it."""


class Waiting:
    """A place in a connection's row of answers: requests are answered in their order."""

    __slots__ = ("delayed", "message", "request")

    def __init__(self, request: Request, delayed: Delayed | None, message: Message | None) -> None:
        # Without its message, whose records would keep the frame's memory for as long.
        self.request = request._replace(message=NO_MESSAGE)
        self.delayed = delayed
        self.message = message


class Node:
    """One process of a cluster. Invariant: between two steps nothing is ready but unsent."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._rows: dict[ConnectionId, deque[Waiting]] = {}
        self._places: dict[Delayed, tuple[ConnectionId, Waiting]] = {}
        self._paused: set[ConnectionId] = set()

    def step(self, event: Event, now: Now) -> list[Effect]:
        """Take in what happened; return what has to be done about it."""
        effects: list[Effect] = []
        try:
            match event:
                case Received():
                    self._receive(event, now, effects)
                case Ticked():
                    self.broker.tick(now)
                case Flushed():
                    self.broker.flushed(event, now)
                case Disconnected(connection):
                    self._forget(connection)
                case _:
                    assert_never(event)
            self._settle(now, effects)
        except (OSError, DiskFull) as error:
            # Half of something was done: nobody may be answered from this state.
            self.broker.hosting.fail(str(error))
            effects += self.broker.effects
            self.broker.effects = []
        return effects

    def served_at(self, listener: str) -> Served:
        """Which APIs, in which versions, a listener serves."""
        return self.broker.served_at(listener)

    def stop(self, now: Now) -> list[Effect]:
        """Answer all that waits as if its time were up; nothing may be received any more."""
        effects: list[Effect] = []
        for delayed in list(self._places):
            if not delayed.waits_for_disk:
                self.broker.purgatory.complete(delayed, delayed.expire(now))
        self._settle(now, effects)
        return effects

    @property
    def is_busy(self) -> bool:
        """Whether somebody still waits for an answer."""
        return bool(self._places)

    @property
    def next_deadline_ms(self) -> int:
        """When, by the monotonic clock, the node wants to be Ticked at the latest."""
        return self.broker.alarm.time_ms

    def _receive(self, event: Received, now: Now, effects: list[Effect]) -> None:
        request = event.request
        self.broker.listener = event.listener
        row = self._rows.get(event.connection)
        try:
            answer = HANDLERS[request.key](request, self.broker, now)
            if isinstance(answer, Message) and not row:
                effects.append(Send(event.connection, encode_response(request, answer)))
                return
        except (OSError, DiskFull):
            raise
        except Exception:
            # Ours to mend, not the client's to read.
            log.exception("key %d version %d failed", request.key, request.version)
            effects.append(CloseConnection(event.connection, "an error of ours, see above"))
            return
        if isinstance(answer, Message):
            self._queue(event.connection, Waiting(request, None, answer), effects)
        elif isinstance(answer, Delayed):
            waiting = Waiting(request, answer, None)
            self._queue(event.connection, waiting, effects)
            self._places[answer] = event.connection, waiting
            self.broker.purgatory.add(answer)
        elif isinstance(answer, Disconnect):
            effects.append(CloseConnection(event.connection, answer.reason))

    def _queue(self, connection: ConnectionId, waiting: Waiting, effects: list[Effect]) -> None:
        row = self._rows.setdefault(connection, deque())
        row.append(waiting)
        if len(row) > WAITING_MAX and connection not in self._paused:
            self._paused.add(connection)
            effects.append(PauseReading(connection))

    def _settle(self, now: Now, effects: list[Effect]) -> None:
        """Complete what this step made possible, until nothing more comes of it."""
        broker = self.broker
        while broker.woken:
            woken, _ = broker.woken.popitem()
            woken.maybe_complete(now)
        completed = broker.purgatory.completed
        if completed:
            broker.purgatory.completed = []
            for delayed in completed:
                self._answer_delayed(delayed, effects)
        if broker.effects:
            effects += broker.effects
            broker.effects = []

    def _answer_delayed(self, delayed: Delayed, effects: list[Effect]) -> None:
        place = self._places.pop(delayed, None)
        if place is None:
            return
        connection, waiting = place
        waiting.delayed, waiting.message = None, delayed.answer
        row = self._rows[connection]
        while row and row[0].message is not None:
            first = row.popleft()
            assert first.message is not None
            effects.append(Send(connection, encode_response(first.request, first.message)))
        if connection in self._paused and len(row) <= WAITING_MAX // 2:
            self._paused.remove(connection)
            effects.append(ResumeReading(connection))
        if not row:
            del self._rows[connection]

    def _forget(self, connection: ConnectionId) -> None:
        self._paused.discard(connection)
        for waiting in self._rows.pop(connection, ()):
            if waiting.delayed is not None:
                self._places.pop(waiting.delayed, None)
                self.broker.purgatory.cancel(waiting.delayed)
