"""Drives a node with real sockets, files and clocks: starts its effects, brings it its events."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tidelog.broker.handlers.produce import is_heavy, is_recompressed, judge_all
from tidelog.env import Disk, DiskFull, Now
from tidelog.events import (
    CloseConnection,
    Connect,
    Disconnected,
    Effect,
    Event,
    FileFailed,
    Flush,
    Flushed,
    Lane,
    PauseReading,
    Received,
    RemoveFile,
    RemoveTree,
    ResumeReading,
    Send,
    StopProcess,
    Ticked,
    TurnEnded,
)
from tidelog.node import Node
from tidelog.runtime.alarm import NEVER
from tidelog.server.connection import Connection
from tidelog.server.outbox import Outbox, Unsent
from tidelog.server.peer_connections import PeerConnections
from tidelog.wire.api import ApiKey
from tidelog.wire.records_types import SingleProduce
from tidelog.wire.request import Request, Served, decode_any

log = logging.getLogger("tidelog.server")

IDLE_SWEEP_SECONDS = 5.0
IDLE_SWEEP_SECONDS_MIN = 0.1
DRAIN_POLL_SECONDS = 0.01
TURNS_MIN, TURNS_MAX = 8, 20
TURNS_NS_MAX = 2_000_000
"""Of the loop, and of time, while a node waits for more. In each of them other processes go first:
among them are those who send more, where there are fewer cores than processes. What the last one
takes of a core comes on top."""
LONG_FRAME = 64 << 10
"""Records that are worth an answer to followers by themselves: nobody waits for more."""


# Asked at every request: so without the detours of a named tuple and a module's names.
_NEW, _monotonic_ns, _time_ns = tuple.__new__, time.monotonic_ns, time.time_ns


def now() -> Now:
    return _NEW(Now, (_monotonic_ns() // 1_000_000, _time_ns() // 1_000_000))


class Shell:
    """One event loop, one node."""

    def __init__(self, node: Node, disk: Disk, *, request_bytes_max: int, idle_ms_max: int) -> None:
        self.node = node
        self.disk = disk
        self.request_bytes_max = request_bytes_max
        self.idle_ms_max = idle_ms_max
        self.unsent = Unsent(waiting_bytes=lambda: node.rows.bytes)
        self.loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[str | None] = self.loop.create_future()
        """Resolved when the process should end: None if cleanly, else why not."""
        self._is_hurried = False
        self._connections: dict[int, Connection] = {}
        self._connection_count = 0
        self._peers = PeerConnections(self.step, self.unsent)
        self._unflushed: list[Outbox] = []
        self._judging = 0
        """Requests whose records are judged in a thread."""
        self._is_closed = False
        self._recompressing = node.broker.hosting.recompressing if node.config.is_broker else {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER
        self._alarm = node.runtime.alarm
        self._turns = self._steps = 0
        """Of the loop since the node waits for more, and of the node in the last of them."""
        self._turns_end_ns = 0
        self._now: Now | None = None
        """Of this turn of the loop: to ask for it takes longer than to check a record."""
        node.has_turns = True
        self._threads = {
            lane: ThreadPoolExecutor(lane.threads, thread_name_prefix=lane.value) for lane in Lane
        }
        self._judges = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._effects: dict[type[Any], Callable[[Any], None]] = {
            Send: self._send,
            CloseConnection: self._close_connection,
            PauseReading: self._pause_reading,
            ResumeReading: self._resume_reading,
            Connect: self._peers.connect,
            Flush: self._flush,
            RemoveFile: self._remove_file,
            RemoveTree: self._remove_tree,
            StopProcess: self._stop_process,
        }

    def listener(self, name: str) -> ShellListener:
        """What connections of a listener talk to."""
        return ShellListener(self, name)

    def start(self) -> None:
        """Take up what the node wants to do by itself."""
        self.step(Ticked())
        self.sweep_idle()

    def stop(self) -> None:
        """Told to: the process ends as soon as what is in flight is answered. Told again, it does
        not wait until others have taken over what this node leads."""
        if not self.stopping.done():
            self.stopping.set_result(None)
        elif not self._is_hurried:
            self._is_hurried = True
            log.info("this node was told to stop again: it does not wait for others")

    @property
    def is_busy(self) -> bool:
        """Whether somebody still waits for an answer, or for the rest of one."""
        return (
            self._judging > 0
            or self.node.is_busy
            or any(connection.unsent_bytes for connection in self._connections.values())
        )

    async def leave(self, seconds_max: float) -> None:
        """Hand over what this node leads, serving on meanwhile; then let another controller be
        active, which is known before this one is gone."""
        deadline = self.loop.time() + seconds_max

        def may_wait() -> bool:
            return not self._is_hurried and self.loop.time() < deadline

        self._start_all(self.node.leave(self._look_at_clocks()))
        while not self.node.has_left and may_wait():
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        self._start_all(self.node.resign(self._look_at_clocks()))
        while not self.node.has_resigned and may_wait():
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    def _start_all(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._effects[type(effect)](effect)
        if self._alarm.time_ms < self._timer_ms:
            self._set_timer(self._alarm.time_ms)

    async def drain(self, seconds_max: float) -> None:
        """Answer what waits, and let slow readers read."""
        deadline = self.loop.time() + seconds_max
        for connection in self._connections.values():
            connection.hold()
        self._start_all(self.node.stop(self._look_at_clocks()))
        while self.is_busy and self.loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    def step(self, event: Event) -> None:
        if self._is_closed:
            return
        # As `_send`, without the call: this is done for every request.
        for effect in self.node.step(event, self._now or self._look_at_clocks()):
            if type(effect) is Send:
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    if connection.outbox.push(effect.parts):
                        self._unflushed.append(connection.outbox)
                        if len(self._unflushed) == 1:
                            self.loop.call_soon(self._flush_answers)
                elif effect.connection < 0:
                    self._peers.send(effect.connection, effect.parts)
            else:
                self._effects[type(effect)](effect)
        if self._alarm.time_ms < self._timer_ms:
            self._set_timer(self._alarm.time_ms)
        self._steps += 1
        if self.node.waits_for_more and not self._turns:
            self._turns, self._steps = 1, 0
            self._turns_end_ns = _monotonic_ns() + TURNS_NS_MAX
            self.loop.call_soon(self._end_turn)

    def _look_at_clocks(self) -> Now:
        """Once a turn of the loop: the time of all steps in it."""
        if self._now is None:
            self._now = now()
            self.loop.call_soon(self._forget_now)
        return self._now

    def _forget_now(self) -> None:
        self._now = None

    def _end_turn(self) -> None:
        """Once nothing more comes, or it took too many turns of the loop."""
        may_come = self._steps > 0 or self._turns < TURNS_MIN
        has_time = self._turns < TURNS_MAX and _monotonic_ns() < self._turns_end_ns
        if may_come and has_time:
            self._turns, self._steps = self._turns + 1, 0
            os.sched_yield()
            self.loop.call_soon(self._end_turn)
        else:
            self._turns = 0
            self.step(TurnEnded())

    def _set_timer(self, time_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = time_ms - time.monotonic_ns() // 1_000_000
        self._timer_ms = time_ms
        self._timer = self.loop.call_later(max(0, delay) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_ms = None, NEVER
        self.step(Ticked())

    # What connections tell.

    def connected(self, connection: Connection) -> None:
        self._connection_count += 1
        connection.id = self._connection_count
        connection.last_active_ms = now().monotonic_ms
        self._connections[connection.id] = connection

    def received(self, connection: Connection, request: Request | SingleProduce) -> bool:
        connection.last_active_ms = self._active_ms
        if not isinstance(request, Request):
            if self._recompressing and is_recompressed(request, self.node.broker):
                return self.received(
                    connection, decode_any(request.frame, connection.listener.served)
                )
        elif request.key == ApiKey.PRODUCE and is_heavy(request, self.node.broker):
            self._judge(connection, request)
            return False
        self.step(_NEW(Received, (connection.id, request, connection.listener.name)))
        if self._turns and not isinstance(request, Request) and len(request.frame) > LONG_FRAME:
            self.step(TurnEnded())
        return True

    def _judge(self, connection: Connection, request: Request) -> None:
        """Have large records judged in a thread; the connection's next request waits."""

        def done(future: asyncio.Future[Request]) -> None:
            self._judging -= 1
            if future.cancelled():
                return
            failure = future.exception()
            if failure is not None:
                log.error("judging records failed", exc_info=failure)
                connection.close("an error of ours, see above")
                return
            self.step(Received(connection.id, future.result(), connection.listener.name))
            connection.proceed()

        self._judging += 1
        broker = self.node.broker
        judging = self.loop.run_in_executor(self._judges, judge_all, request, broker, now())
        judging.add_done_callback(done)

    def disconnected(self, connection: Connection) -> None:
        if self._connections.pop(connection.id, None) is not None:
            self.step(Disconnected(connection.id))

    def file_failed(self, error: OSError) -> None:
        """Not at once: what is sent is read in a step, too."""
        self.loop.call_soon(self.step, FileFailed(error.filename, error))

    _active_ms = 0
    """The clock of the idle sweep: coarse, so that a request need not ask the time twice."""

    def sweep_idle(self) -> None:
        """Close connections that were silent for too long; called again by itself."""
        since_ms, self._active_ms = self._active_ms, now().monotonic_ms
        for connection in list(self._connections.values()):
            if connection.last_active_ms >= since_ms:
                continue  # at some time since the last sweep, whose time it was given
            connection.frames.shrink()
            if connection.has_moved():
                connection.last_active_ms = self._active_ms
                continue
            # Negative: never.
            if 0 <= self.idle_ms_max < since_ms - connection.last_active_ms:
                connection.close(f"idle for {self.idle_ms_max} ms", logging.INFO)
        interval = IDLE_SWEEP_SECONDS
        if self.idle_ms_max >= 0:
            interval = min(interval, max(self.idle_ms_max / 2000, IDLE_SWEEP_SECONDS_MIN))
        self.loop.call_later(interval, self.sweep_idle)

    # Effects.

    def _send(self, effect: Send) -> None:
        """All that arrived together is handled first, and answered together: a write may wake
        its reader, which costs more than many a request."""
        connection = self._connections.get(effect.connection)
        if connection is not None:
            if connection.outbox.push(effect.parts):
                self._unflushed.append(connection.outbox)
                if len(self._unflushed) == 1:
                    self.loop.call_soon(self._flush_answers)
        elif effect.connection < 0:
            self._peers.send(effect.connection, effect.parts)

    def _flush_answers(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for outbox in unflushed:
            if outbox.is_open:
                outbox.flush()

    def _close_connection(self, effect: CloseConnection) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.close(effect.reason)
        elif effect.connection < 0:
            self._peers.close_one(effect)

    def _pause_reading(self, effect: PauseReading) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.hold()

    def _resume_reading(self, effect: ResumeReading) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            # Not before the rest of this step's effects: answers among them come first.
            self.loop.call_soon(connection.proceed)

    def _flush(self, effect: Flush) -> None:
        def flush() -> OSError | DiskFull | None:
            try:
                for unflushed in effect.work:
                    unflushed.flush(self.disk)
            except (OSError, DiskFull) as error:
                return error
            return None

        def done(future: asyncio.Future[OSError | DiskFull | None]) -> None:
            if not future.cancelled():
                self.step(Flushed(effect.token, future.result()))

        self.loop.run_in_executor(self._threads[effect.lane], flush).add_done_callback(done)

    def _remove_file(self, effect: RemoveFile) -> None:
        self._on_disk(effect.path, partial(self.disk.remove, effect.path))

    def _remove_tree(self, effect: RemoveTree) -> None:
        self._on_disk(effect.path, partial(self.disk.remove_directory, effect.path))

    def _on_disk(self, path: str, action: Callable[[], None]) -> None:
        """In a thread. A full disk is no news: the old file stays until the next."""

        def done(future: asyncio.Future[None]) -> None:
            failure = None if future.cancelled() else future.exception()
            if isinstance(failure, OSError):
                self.step(FileFailed(path, failure))

        self.loop.run_in_executor(self._threads[Lane.SOME_DAY], action).add_done_callback(done)

    def _stop_process(self, effect: StopProcess) -> None:
        if not self.stopping.done():
            self.stopping.set_result(effect.reason)

    def close(self) -> None:
        """After the last step: let the disk threads end what they began."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections.values()):
            connection.close("the node stops", logging.DEBUG)
        self._peers.close()
        self._judges.shutdown(wait=True)
        for threads in self._threads.values():
            threads.shutdown(wait=True)


class ShellListener:
    """One of a node's listeners."""

    def __init__(self, shell: Shell, name: str) -> None:
        self.name = name
        self.served: Served = shell.node.served_at(name)
        self.request_bytes_max = shell.request_bytes_max
        self.unsent = shell.unsent
        self.connected = shell.connected
        self.received = shell.received
        self.disconnected = shell.disconnected
        self.file_failed = shell.file_failed
