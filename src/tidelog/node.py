"""A node is one state machine: `step(event, now) -> effects`.

No sockets, clocks, threads or chance in here: `server/` drives it with real ones, `sim/` with
virtual ones. Effects start in the order of the list, and none waits for another.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from functools import partial
from typing import Any, assert_never

from tidelog.broker.broker import Broker
from tidelog.broker.delayed_produce import DelayedSingle
from tidelog.broker.handlers.fetch import WOKEN_AT_ONCE_MAX, DelayedFetch, look_at_all
from tidelog.broker.handlers.produce import produce_single
from tidelog.broker.log_dirs import LogDirs
from tidelog.broker.router import HANDLERS, LARGE_HANDLERS
from tidelog.config.broker import BrokerConfig
from tidelog.env import DiskFull, Now
from tidelog.events import (
    Answered,
    CloseConnection,
    Connected,
    ConnectFailed,
    ConnectionId,
    Disconnected,
    Effect,
    Event,
    FileFailed,
    Flushed,
    PauseReading,
    Received,
    ResumeReading,
    Send,
    StopProcess,
    Ticked,
    TurnEnded,
)
from tidelog.quorum_controller.controller import QuorumController
from tidelog.raft.raft import Raft
from tidelog.runtime.answers import Answer, Disconnect
from tidelog.runtime.jobs import Job
from tidelog.runtime.pace import Pace
from tidelog.runtime.purgatory import Delayed
from tidelog.runtime.rows import NO_MESSAGE, Rows, Waiting
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.large import decode_large, encode_large
from tidelog.wire.request import Request, Served, Undecoded, decode_any, encode_response

log = logging.getLogger("tidelog.node")

_new = tuple.__new__
"""Makes a named tuple without its own constructor, which takes a third of a microsecond."""

ENCODED = Request(0, 0, 0, None, NO_MESSAGE)
"""Where the answer is a frame already, nothing more is asked of the request."""
Encoded = list[Any] | Delayed | Disconnect | None
"""An answer, or what there is instead of one."""


class Node:
    """One process of a cluster. Invariant: between two steps nothing is ready but unsent, except
    for what jobs have still to do, and what a TurnEnded will end (`waits_for_more`)."""

    def __init__(
        self,
        config: BrokerConfig,
        runtime: Runtime,
        broker: Broker | None,
        controller: QuorumController | None,
        raft: Raft,
        log_dirs: LogDirs,
    ) -> None:
        self.config = config
        self._raft = raft
        self.log_dirs = log_dirs
        self.runtime = runtime
        self._broker = broker
        self._controller = controller
        self._woken: dict[DelayedFetch, None] = {} if broker is None else broker.woken
        self._roles: dict[str, Broker | QuorumController] = {}
        """By listener."""
        for endpoint in config.bound_endpoints:
            is_controllers = endpoint.name in config.controller_names
            role = controller if is_controllers else broker
            assert role is not None, f"nobody serves {endpoint.name}"
            self._roles[endpoint.name] = role
        self.rows = Rows()
        self._places: dict[Delayed, tuple[ConnectionId, Waiting]] = {}
        self._jobs: dict[ConnectionId, Job] = {}
        """Requests that take more than a step. Their connections are not read from: a client
        has one such request at a time, and what it holds of the frame stays good."""
        self._paused: set[ConnectionId] = set()
        self.has_turns = False
        """Whether a TurnEnded comes when it waits for more."""
        self.pace = Pace()
        self.waits_for_more = False
        """While records come so fast that more are likely to come at once, those who wait for
        them, followers above all, are answered once for all of them."""

    @property
    def broker(self) -> Broker:
        """Only of a node that has this role."""
        assert self._broker is not None
        return self._broker

    @property
    def controller(self) -> QuorumController:
        """Only of a node that has this role."""
        assert self._controller is not None
        return self._controller

    def step(self, event: Event, now: Now) -> list[Effect]:
        """Take in what happened; return what has to be done about it."""
        effects: list[Effect] = []
        try:
            match event:
                case Received():
                    self._receive(event, now, effects)
                case Ticked():
                    self.runtime.tick(now)
                case TurnEnded():
                    self.waits_for_more = False
                case Flushed():
                    self.runtime.flushed(event, now)
                case Disconnected(connection) if connection > 0:
                    self._forget(connection, now)
                case Answered() | Connected() | ConnectFailed() | Disconnected():
                    self.runtime.peers.step(event, now)
                case FileFailed(path, error):
                    self._fail(path, str(error), now)
                case _:
                    assert_never(event)
            runtime = self.runtime
            self.pace.steps += 1
            if self._woken and self.has_turns and self.pace.is_fast(now):
                self.waits_for_more = event.__class__ is not TurnEnded
            if self._woken or runtime.effects or runtime.purgatory.completed:
                self._settle(now, effects)
            if event.__class__ is not Received:
                runtime.heed_timed()
        except (OSError, DiskFull) as error:
            # Half of something was done: nobody may be answered from this state.
            if isinstance(event, Received):
                effects.append(CloseConnection(event.connection, "its log directory failed"))
            self._fail(getattr(error, "filename", None), str(error), now)
            effects += self.runtime.effects
            self.runtime.effects.clear()
        return effects

    def _fail(self, path: str | None, reason: str, now: Now) -> None:
        """The disk erred."""
        if self._broker is not None:
            self._broker.hosting.fail(path, reason, now)
        else:
            self.runtime.effects.append(StopProcess(f"the metadata log is offline: {reason}"))

    def served_at(self, listener: str) -> Served:
        """Which APIs, in which versions, a listener serves."""
        return self._roles[listener].served

    def leave(self, now: Now) -> list[Effect]:
        """Hand over to others what this node leads; it serves on meanwhile. Then comes `stop`."""
        effects: list[Effect] = []
        if self._broker is not None:
            self._broker.lifecycle.stop(now)
        self._settle(now, effects)
        return effects

    def resign(self, now: Now) -> list[Effect]:
        """Let another controller be the active one, after the broker has left."""
        effects: list[Effect] = []
        self._raft.resign(now)
        self._settle(now, effects)
        self.runtime.heed_timed()
        return effects

    @property
    def has_left(self) -> bool:
        return self._broker is None or self._broker.lifecycle.has_stopped

    @property
    def has_resigned(self) -> bool:
        """Or there is nobody to know of it."""
        is_alone = self._broker is not None and self._broker.lifecycle.leaving.is_hopeless
        return is_alone or self._raft.has_handed_over

    def stop(self, now: Now) -> list[Effect]:
        """Answer all that waits as if its time were up; nothing may be received any more."""
        effects: list[Effect] = []
        for delayed in list(self._places):
            if not delayed.waits_for_disk:
                self.runtime.purgatory.end(delayed, now)
        self._settle(now, effects)
        return effects

    @property
    def is_busy(self) -> bool:
        """Whether somebody still waits for an answer."""
        return bool(self.rows)

    @property
    def next_deadline_ms(self) -> int:
        """When, by the monotonic clock, the node wants to be Ticked at the latest."""
        return self.runtime.alarm.time_ms

    def _receive(self, event: Received, now: Now, effects: list[Effect]) -> None:
        request = event.request
        role = self._roles[event.listener]
        role.listener, role.connection = event.listener, event.connection
        try:
            if not isinstance(request, Request):
                single = produce_single(request, self.broker, now)
                if single is not None:
                    if isinstance(single, DelayedSingle):
                        waiting = self.rows.add(event.connection, single.request)
                        self._wait(event.connection, waiting, single)
                    elif event.connection in self.rows:
                        self._answer_in_turn(event.connection, single)
                    elif single:
                        effects.append(_new(Send, (event.connection, [single])))
                    return
                request = decode_any(request.frame, role.served)
            if request.message.__class__ is Undecoded:
                answer: Answer | Slices[Answer] = self._decode_and_handle(request, event, now)
            elif isinstance(role, QuorumController):
                answer = role.handle(request, now)
                self.runtime.heed_timed()
            else:
                answer = HANDLERS[request.key](request, role, now)
            if isinstance(answer, Message) and event.connection not in self.rows:
                effects.append(Send(event.connection, encode_response(request, answer)))
                return
        except (OSError, DiskFull):
            raise
        except Exception:
            # Ours to mend, not the client's to read.
            log.exception("a request failed: %s", type(event.request).__name__)
            effects.append(CloseConnection(event.connection, "an error of ours, see above"))
            return
        if answer is None:
            return
        waiting = self.rows.add(event.connection, request)
        if isinstance(answer, Delayed):
            self._wait(event.connection, waiting, answer)
        elif isinstance(answer, Generator):
            self._begin(event.connection, waiting, answer, now)
        elif isinstance(answer, Message):
            self._done(event.connection, waiting, encode_response(request, answer))
        else:
            self._done(event.connection, waiting, answer)

    def _begin(
        self, connection: ConnectionId, waiting: Waiting, slices: Slices[Answer], now: Now
    ) -> None:
        done = partial(self._done, connection, waiting)
        job = self.runtime.jobs.start(self._in_slices(waiting, slices, now), now, done)
        if not job.is_done:
            self._jobs[connection] = job
            self._pause(connection)

    def _decode_and_handle(self, request: Request, event: Received, now: Now) -> Slices[Answer]:
        try:
            request = yield from decode_large(request)
        except DecodeError as error:
            return Disconnect(str(error))
        role = self._roles[event.listener]
        role.listener, role.connection = event.listener, event.connection
        if isinstance(role, QuorumController):
            answer = role.handle(request, now)
        else:
            answer = LARGE_HANDLERS[request.key](request, role, now)
        return (yield from answer) if isinstance(answer, Generator) else answer

    def _in_slices(self, waiting: Waiting, slices: Slices[Answer], now: Now) -> Slices[Encoded]:
        """What a handler does, and then the encoding of its answer."""
        try:
            answer = yield from slices
            if isinstance(answer, Message):
                return (yield from encode_large(waiting.request, answer))
            return answer
        except OSError as error:
            if self._broker is None or self._broker.log_dirs.is_fatal(error.filename):
                raise
            self._fail(error.filename, str(error), now)
            return Disconnect("its log directory failed")
        except DiskFull as error:
            return Disconnect(str(error))
        except Exception:
            log.exception("key %d version %d failed", *waiting.request[:2])
            return Disconnect("an error of ours, see above")

    def _done(self, connection: ConnectionId, waiting: Waiting, answer: Encoded) -> None:
        """A request is handled, which need not mean answered."""
        job = self._jobs.get(connection)
        if job is not None and job.is_done:
            # Or it goes on, and it is the encoding of an earlier answer that is done.
            del self._jobs[connection]
        if isinstance(answer, Delayed):
            self._wait(connection, waiting, answer)
        elif isinstance(answer, Disconnect):
            self.runtime.effects.append(CloseConnection(connection, answer.reason))
        else:
            self.rows.fill(connection, waiting, answer or [])
        self._send_ready(connection)

    def _wait(self, connection: ConnectionId, waiting: Waiting, delayed: Delayed) -> None:
        waiting.delayed = delayed
        self._places[delayed] = connection, waiting
        self.runtime.purgatory.add(delayed)
        if self.rows.is_full(connection):
            self._pause(connection)

    def _answer_in_turn(self, connection: ConnectionId, frame: bytes) -> None:
        if frame:
            self.rows.fill(connection, self.rows.add(connection, ENCODED), [frame])
            if self.rows.is_full(connection):
                self._pause(connection)

    def _pause(self, connection: ConnectionId) -> None:
        if connection not in self._paused:
            self._paused.add(connection)
            self.runtime.effects.append(PauseReading(connection))

    def _settle(self, now: Now, effects: list[Effect]) -> None:
        """Complete what this step made possible, until nothing more comes of it."""
        purgatory = self.runtime.purgatory
        while (self._woken and not self.waits_for_more) or purgatory.completed:
            if len(self._woken) > WOKEN_AT_ONCE_MAX and not self.waits_for_more:
                woken_fetches = dict(self._woken)
                self._woken.clear()
                self.runtime.jobs.start(look_at_all(woken_fetches, now), now)
            while self._woken and not self.waits_for_more:
                woken, _ = self._woken.popitem()
                woken.maybe_complete(now)
            completed, purgatory.completed = purgatory.completed, []
            for delayed in completed:
                self._answer_delayed(delayed, now)
        if self.runtime.effects:
            effects += self.runtime.effects
            self.runtime.effects.clear()

    def _answer_delayed(self, delayed: Delayed, now: Now) -> None:
        if delayed.then is not None:
            assert delayed.answer is not None
            delayed.then(delayed.answer, now)
            return
        place = self._places.pop(delayed, None)
        if place is None:
            return
        connection, waiting = place
        waiting.delayed = None
        if delayed.parts is not None:
            if connection not in self._paused and self.rows.take_alone(connection, waiting):
                self.runtime.effects.append(_new(Send, (connection, delayed.parts)))
            else:
                self.rows.fill(connection, waiting, delayed.parts)
                self._send_ready(connection)
            return
        assert delayed.answer is not None
        if delayed.is_large:
            slices = encode_large(waiting.request, delayed.answer)
            self.runtime.jobs.start(slices, now, partial(self._done, connection, waiting))
            return
        self.rows.fill(connection, waiting, encode_response(waiting.request, delayed.answer))
        self._send_ready(connection)

    def _send_ready(self, connection: ConnectionId) -> None:
        """What is ready and has nothing before it in the row."""
        if connection not in self.rows:
            return  # the client is gone
        effects = self.runtime.effects
        for parts in self.rows.take_ready(connection):
            effects.append(Send(connection, parts))
        if self.rows.is_full(connection):
            self._pause(connection)
        elif (
            connection in self._paused
            and connection not in self._jobs
            and self.rows.has_room(connection)
        ):
            self._paused.remove(connection)
            effects.append(ResumeReading(connection))

    def _forget(self, connection: ConnectionId, now: Now) -> None:
        if self._controller is not None:
            self._controller.disconnected(connection, now)
        self._paused.discard(connection)
        job = self._jobs.pop(connection, None)
        if job is not None:
            job.cancel()
        for waiting in self.rows.remove(connection):
            if waiting.delayed is not None:
                self._places.pop(waiting.delayed, None)
                self.runtime.purgatory.cancel(waiting.delayed)
