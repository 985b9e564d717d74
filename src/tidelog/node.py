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
from tidelog.env import Now
from tidelog.events import (
    CloseConnection,
    ConnectionId,
    Disconnected,
    Effect,
    Event,
    Flushed,
    Received,
    Send,
    Ticked,
)
from tidelog.wire.declare import Message
from tidelog.wire.request import Request, Served, encode_response

log = logging.getLogger("tidelog.node")


class Waiting:
    """A place in a connection's row of answers: requests are answered in their order."""

    __slots__ = ("delayed", "message", "request")

    def __init__(self, request: Request, delayed: Delayed | None, message: Message | None) -> None:
        self.request = request
        self.delayed = delayed
        self.message = message


class Node:
    """One process of a cluster. Invariant: between two steps nothing is ready but unsent."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._rows: dict[ConnectionId, deque[Waiting]] = {}
        self._places: dict[Delayed, tuple[ConnectionId, Waiting]] = {}

    def step(self, event: Event, now: Now) -> list[Effect]:
        """Take in what happened; return what has to be done about it."""
        effects: list[Effect] = []
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
    def next_deadline_ms(self) -> int | None:
        """When, by the monotonic clock, the node wants to be Ticked."""
        return self.broker.next_deadline_ms

    def _receive(self, event: Received, now: Now, effects: list[Effect]) -> None:
        request = event.request
        self.broker.listener = event.listener
        try:
            answer = HANDLERS[request.key](request, self.broker, now)
        except Exception:
            # Ours to mend, not the client's to read.
            log.exception("key %d version %d failed", request.key, request.version)
            effects.append(CloseConnection(event.connection, "an error of ours, see above"))
            return
        if isinstance(answer, Message):
            row = self._rows.get(event.connection)
            if row:
                row.append(Waiting(request, None, answer))
            else:
                effects.append(Send(event.connection, encode_response(request, answer)))
        elif isinstance(answer, Delayed):
            waiting = Waiting(request, answer, None)
            self._rows.setdefault(event.connection, deque()).append(waiting)
            self._places[answer] = event.connection, waiting
            self.broker.purgatory.add(answer)
        elif isinstance(answer, Disconnect):
            effects.append(CloseConnection(event.connection, answer.reason))

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
        if not row:
            del self._rows[connection]

    def _forget(self, connection: ConnectionId) -> None:
        for waiting in self._rows.pop(connection, ()):
            if waiting.delayed is not None:
                self._places.pop(waiting.delayed, None)
                self.broker.purgatory.cancel(waiting.delayed)
