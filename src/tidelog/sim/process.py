"""One life of a program on a simulated machine: brings it its events and starts its effects, as
`server/shell.py` does with real sockets and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from tidelog.env import DiskFull, Now
from tidelog.events import (
    Answered,
    CloseConnection,
    Connect,
    Connected,
    ConnectFailed,
    ConnectionId,
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
from tidelog.runtime.alarm import NEVER
from tidelog.sim.connection import Connection, joined
from tidelog.sim.disk import Crashed
from tidelog.sim.disk_threads import DiskThreads
from tidelog.sim.network import Attempt, Made, Socket
from tidelog.sim.program import Program, Surroundings
from tidelog.sim.timeline import Action
from tidelog.wire.decoder import DecodeError
from tidelog.wire.request import decode_request

TURN_US_MAX = 2000
"""After which a node's wait for more to come ends, as it does in `server/shell.py`."""
TICK_US_MIN = 20
"""Between two steps that a program asks for: the first takes some time."""


class Process:
    """Everything that ends with it: connections, timers, work that the disk was to do."""

    def __init__(self, machine: Surroundings, program: Program) -> None:
        self.machine = machine
        self.program = program
        self.is_alive = True
        self.is_paused = False
        self._held: list[Action] = []
        """What happened while it was paused."""
        self._connections: dict[ConnectionId, Connection] = {}
        self._by_socket: dict[Socket, Connection] = {}
        self._attempts: dict[ConnectionId, Attempt] = {}
        self._count = 0
        self._timer_ms = NEVER
        self._has_turn = False
        """Whether a turn ends that the program waits for."""
        self._threads = {lane: DiskThreads(lane.threads, self._after_a_while) for lane in Lane}
        self._unflushed: dict[ConnectionId, None] = {}
        self._effects: dict[type[Any], Callable[[Any], None]] = {
            Send: self._send,
            CloseConnection: self._close_connection,
            PauseReading: self._pause_reading,
            ResumeReading: self._resume_reading,
            Connect: self._connect,
            Flush: self._flush,
            RemoveFile: self._remove_file,
            RemoveTree: self._remove_tree,
            StopProcess: self._stop_process,
        }
        self._ports_later: Mapping[int, str] = {}
        self._is_ready: Callable[[], bool] = bool

    def listen(self, ports: Mapping[int, str]) -> None:
        for port, listener in ports.items():
            self.machine.host.ports[port] = partial(self._accept, listener)

    def listen_later(self, ports: Mapping[int, str], is_ready: Callable[[], bool]) -> None:
        """After the first step that makes the program ready."""
        self._ports_later, self._is_ready = ports, is_ready

    def end(self, *, is_power_failure: bool = False) -> None:
        """Nothing of it happens any more."""
        self.is_alive = False
        for attempt in self._attempts.values():
            attempt.give_up()
        self.machine.host.ports.clear()
        if not is_power_failure:
            for socket in list(self.machine.host.sockets):
                socket.abort()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held, self._held = self._held, []
        for action in held:
            self.happen(action)

    def happen(self, action: Action) -> None:
        """Something for the process to notice, when it runs."""
        if self.is_paused:
            self._held.append(action)
        elif self.is_alive:
            try:
                action()
            except Crashed:
                self.machine.power_failed()

    def step(self, event: Event, frame: memoryview | None = None) -> None:
        if not self.is_alive:
            return
        now = self.machine.before_step(event, frame)
        self._start(self.program.step(event, now))

    def ask(self, call: Callable[[Now], list[Effect]]) -> None:
        """Have it do something that no event tells it to."""
        if self.is_alive:
            self._start(call(self.machine.clock.now()))

    def _start(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._effects[effect.__class__](effect)
        if self.is_alive:
            if self._ports_later and self._is_ready():
                self.listen(self._ports_later)
                self._ports_later = {}
            deadline_ms = self.program.next_deadline_ms
            if deadline_ms < self._timer_ms:
                self._set_timer(deadline_ms)
            if self.program.waits_for_more and not self._has_turn:
                self._begin_turn()
            self.machine.after_step()

    def first_step(self) -> None:
        """Let it take up what it wants to do by itself."""
        self.step(Ticked())

    def peer(self, connection: ConnectionId) -> str:
        """Who is at the other end."""
        return self._connections[connection].socket.peer.host.name

    def is_open(self, connection: ConnectionId) -> bool:
        """Whether neither side has hung up, as far as is known here."""
        found = self._connections.get(connection)
        return found is not None and found.socket.is_open

    def _set_timer(self, deadline_ms: int) -> None:
        self._timer_ms = deadline_ms
        delay_us = max(TICK_US_MIN, self.machine.clock.delay_us(deadline_ms))
        tick = partial(self.happen, partial(self._tick, deadline_ms))
        self.machine.network.timeline.after(delay_us, tick)

    def _tick(self, deadline_ms: int) -> None:
        if deadline_ms == self._timer_ms:
            self._timer_ms = NEVER
            self.step(Ticked())

    def _begin_turn(self) -> None:
        """It ends after what happens now, or somewhat later, as more comes."""
        self._has_turn = True
        delay_us = int(self.machine.rng.random() * 2 * TURN_US_MAX) - TURN_US_MAX
        ended = partial(self.happen, self._end_turn)
        self.machine.network.timeline.after(max(0, delay_us), ended)

    def _end_turn(self) -> None:
        self._has_turn = False
        self.step(TurnEnded())

    # The network. A socket's news wait for a paused process like everything else.

    def received(self, socket: Socket, data: bytes) -> None:
        if self.is_paused:
            self._held.append(partial(self.received, socket, data))
            return
        connection = self._by_socket.get(socket)
        if connection is not None and self.is_alive:
            try:
                self._read(connection, data)
            except Crashed:
                self.machine.power_failed()

    def closed(self, socket: Socket) -> None:
        self.happen(partial(self._closed, socket))

    def _accept(self, listener: str, socket: Socket) -> None:
        self._count += 1
        self._adopt(self._count, socket, listener)

    def _adopt(self, number: ConnectionId, socket: Socket, listener: str | None) -> None:
        socket.owner = self
        served = {} if listener is None else self.program.served_at(listener)
        connection = Connection(number, socket, listener, served)
        self._connections[number] = self._by_socket[socket] = connection

    def _read(self, connection: Connection, data: bytes) -> None:
        if connection.held is not None:
            connection.held += data
            return
        reader = connection.frames
        while data and not reader.is_held and self.is_alive:
            place = reader.buffer()
            part, data = data[: len(place)], data[len(place) :]
            place[: len(part)] = part
            self._take(connection, reader.received(len(part)))
        if data:
            self._hold(connection, data)

    def _hold(self, connection: Connection, data: bytes) -> None:
        """What came behind a request that paused the reading."""
        if connection.held is not None:
            connection.held += data

    def _take(self, connection: Connection, frames: Iterator[memoryview]) -> None:
        try:
            for frame in frames:
                if connection.listener is None:
                    self.step(Answered(connection.id, frame), frame)
                else:
                    request = decode_request(frame, connection.served)
                    self.step(Received(connection.id, request, connection.listener), frame)
        except DecodeError as error:
            self._close_connection(CloseConnection(connection.id, str(error)))

    def _closed(self, socket: Socket) -> None:
        connection = self._by_socket.pop(socket, None)
        if connection is not None:
            del self._connections[connection.id]
            self.step(Disconnected(connection.id))

    def _connect(self, effect: Connect) -> None:
        number = effect.connection
        then = partial(self._connected, number)
        attempt = self.machine.network.connect(self.machine.host, effect.host, effect.port, then)
        if attempt is None:
            failed = partial(self.step, ConnectFailed(number, was_refused=False))
            self._soon(failed)
        else:
            self._attempts[number] = attempt

    def _connected(self, number: ConnectionId, made: Made) -> None:
        del self._attempts[number]
        if made.socket is None:
            failed = ConnectFailed(number, made.was_refused)
            self.happen(partial(self.step, failed))
        else:
            self._adopt(number, made.socket, None)
            self.happen(partial(self._begin, number))

    def _begin(self, number: ConnectionId) -> None:
        if number in self._connections:
            self.step(Connected(number))

    def _send(self, effect: Send) -> None:
        connection = self._connections.get(effect.connection)
        if connection is None:
            return
        if effect.connection < 0:
            self._write(connection, [effect.parts])
            return
        # An answer leaves after the step's other effects, and its file slices are read then.
        if not self._unflushed:
            self._soon(self._flush_answers)
        self._unflushed[effect.connection] = None
        connection.unsent.append(effect.parts)

    def _flush_answers(self) -> None:
        unflushed, self._unflushed = self._unflushed, {}
        for number in unflushed:
            connection = self._connections.get(number)
            if connection is not None:
                unsent, connection.unsent = connection.unsent, []
                self._write(connection, unsent)

    def _write(self, connection: Connection, frames: list[list[Any]]) -> None:
        for parts in frames:
            try:
                frame = joined(parts)
            except (OSError, EOFError) as error:
                self._close_connection(CloseConnection(connection.id, str(error)))
                if isinstance(error, OSError):
                    self._soon(partial(self.step, FileFailed(error.filename, error)))
                return
            self.machine.sent(connection.id, frame)
            connection.socket.send(frame)

    def _close_connection(self, effect: CloseConnection) -> None:
        attempt = self._attempts.pop(effect.connection, None)
        if attempt is not None:
            attempt.give_up()
        connection = self._connections.get(effect.connection)
        if connection is None or (connection.frames.is_held and not connection.socket.is_open):
            return
        connection.frames.is_held = True
        unsent, connection.unsent = connection.unsent, []
        self._write(connection, unsent)
        connection.socket.close()
        self._soon(partial(self._closed, connection.socket))

    def _pause_reading(self, effect: PauseReading) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.frames.is_held = True
            connection.held = bytearray()

    def _resume_reading(self, effect: ResumeReading) -> None:
        self._soon(partial(self._resume, effect.connection))

    def _resume(self, number: ConnectionId) -> None:
        connection = self._connections.get(number)
        if connection is None or connection.held is None or not connection.socket.is_open:
            return
        held, connection.held = connection.held, None
        connection.frames.is_held = False
        self._take(connection, connection.frames.frames())
        self._read(connection, bytes(held))

    def _soon(self, action: Action) -> None:
        self.machine.network.timeline.after(0, partial(self.happen, action))

    # The disk.

    def _flush(self, effect: Flush) -> None:
        self._threads[effect.lane].do(partial(self._do_flush, effect))

    def _do_flush(self, effect: Flush) -> None:
        error: OSError | DiskFull | None = None
        try:
            for unflushed in effect.work:
                unflushed.flush(self.machine.disk)
        except (OSError, DiskFull) as failure:
            error = failure
        self.happen(partial(self.step, Flushed(effect.token, error)))

    def _remove_file(self, effect: RemoveFile) -> None:
        self._change(effect.path, partial(self.machine.disk.remove, effect.path))

    def _remove_tree(self, effect: RemoveTree) -> None:
        self._change(effect.path, partial(self.machine.disk.remove_directory, effect.path))

    def _change(self, path: str, action: Action) -> None:
        def change() -> None:
            try:
                action()
            except DiskFull:
                pass  # the old one stays until the next
            except OSError as error:
                self.happen(partial(self.step, FileFailed(path, error)))

        self._threads[Lane.SOME_DAY].do(change)

    def _after_a_while(self, action: Action) -> None:
        first, last = self.machine.flush_us
        delay_us = first + int(self.machine.rng.random() * (last - first))
        self.machine.network.timeline.after(delay_us, partial(self.happen, action))

    def _stop_process(self, effect: StopProcess) -> None:
        self.is_alive = False
        self.machine.after_step()  # others may have been told what it did
        self.machine.stopped(effect.reason)
