"""Drives one node in virtual time and memory, with real frames: the simulated shell."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tidelog.env import DiskFull, Now
from tidelog.events import (
    CloseConnection,
    Connect,
    ConnectFailed,
    Disconnected,
    Effect,
    Event,
    FileFailed,
    Flush,
    Flushed,
    PauseReading,
    Received,
    RemoveFile,
    RemoveTree,
    ResumeReading,
    Send,
    StopProcess,
    Ticked,
)
from tidelog.node import Node
from tidelog.sim.connection import joined
from tidelog.sim.disk import SimulatedDisk
from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import FrameReader
from tidelog.wire.request import decode_request

START_WALL_MS = 1_700_000_000_000

Action = Callable[[], None]


class SimulatedShell:
    """One node, one heap of what is to happen, one seed."""

    def __init__(self, disk: SimulatedDisk, seed: int = 0) -> None:
        self.disk = disk
        self.rng = random.Random(seed)
        self.now = Now(0, START_WALL_MS)
        self.node: Node | None = None
        self.stopped: str | None = None
        """Why the process has ended, if it has."""
        self.flush_ms = (0, 4)
        """How long a flush takes, at least and at most."""
        self.effects: list[Effect] = []
        """All that the node asked for, but answers, in order."""
        self.sent: dict[int, bytearray] = {}
        """What each connection has received from the node and not taken yet."""
        self.closed: dict[int, str] = {}
        self._listeners: dict[int, str] = {}
        self._frames: dict[int, FrameReader] = {}
        self._held: dict[int, bytearray] = {}
        """What connections have sent that are not read from at the moment."""
        self._actions: list[tuple[int, int, Action]] = []
        self._count = 0

    def run(self, node: Node | None) -> None:
        """Another process: what the one before still waited for never happens."""
        self.node, self.stopped = node, None
        self._actions.clear()
        self._frames.clear()
        self._held.clear()
        if node is not None:
            self._step(Ticked())

    def connect(self, listener: str = "PLAINTEXT") -> int:
        self._count += 1
        self._listeners[self._count] = listener
        self._frames[self._count] = FrameReader()
        self.sent[self._count] = bytearray()
        return self._count

    def disconnect(self, connection: int) -> None:
        self._frames.pop(connection, None)
        self._held.pop(connection, None)
        self._step(Disconnected(connection))

    def send(self, connection: int, stream: bytes) -> None:
        """Bytes of a client, at once; frames that they complete are stepped in order."""
        if connection in self._held:
            self._held[connection] += stream
            return
        reader = self._frames[connection]
        while stream and not reader.is_held:
            place = reader.buffer()
            count = min(len(place), len(stream))
            place[:count] = stream[:count]
            stream = stream[count:]
            self._take(connection, reader.received(count))
        if connection in self._held:
            self._held[connection] += stream

    def _take(self, connection: int, frames: Iterator[memoryview]) -> None:
        try:
            for frame in frames:
                self._step(self._decoded(connection, frame))
        except DecodeError as error:
            self._start(CloseConnection(connection, str(error)))

    def _decoded(self, connection: int, frame: memoryview) -> Event:
        assert self.node is not None
        listener = self._listeners[connection]
        request = decode_request(frame, self.node.served_at(listener))
        return Received(connection, request, listener)

    def take(self, connection: int) -> bytes:
        """What the node has sent since the last call."""
        taken = bytes(self.sent[connection])
        self.sent[connection].clear()
        return taken

    def advance(self, milliseconds: int) -> None:
        """Let virtual time pass, event by event."""
        until = self.now.monotonic_ms + milliseconds
        while self.stopped is None:
            assert self.node is not None
            deadline = self.node.next_deadline_ms
            timer_ms = max(deadline, self.now.monotonic_ms)
            action_ms = self._actions[0][0] if self._actions else until + 1
            if min(action_ms, timer_ms) > until:
                break
            self._pass_to(min(action_ms, timer_ms))
            if action_ms <= timer_ms:
                heapq.heappop(self._actions)[2]()
            else:
                self._step(Ticked())
        self._pass_to(until)

    def _pass_to(self, monotonic_ms: int) -> None:
        passed = monotonic_ms - self.now.monotonic_ms
        self.now = Now(monotonic_ms, self.now.wall_ms + passed)
        self.disk.wall_ms = self.now.wall_ms

    def _step(self, event: Event) -> None:
        if self.stopped is None:
            for effect in self._stepped(event):
                self._start(effect)

    def _stepped(self, event: Event) -> list[Effect]:
        assert self.node is not None
        return self.node.step(event, self.now)

    def _start(self, effect: Effect) -> None:
        if not isinstance(effect, Send):
            self.effects.append(effect)
        match effect:
            case Send(connection, parts):
                if connection not in self.closed and connection in self.sent:
                    self._send(connection, parts)
            case CloseConnection(connection, reason):
                if connection not in self.closed:
                    self.closed[connection] = reason
                    self._hold(connection)
                    self._later(0, partial(self.disconnect, connection))
            case PauseReading(connection):
                self._held[connection] = bytearray()
                self._hold(connection)
            case ResumeReading(connection):
                self._later(0, partial(self._resume, connection))
            case Connect(connection):
                # There is one node in this world.
                self._later(0, partial(self._step, ConnectFailed(connection, was_refused=True)))
            case Flush():
                # The disk is asked only then: what happens in between, happens in between.
                self._later(self.rng.randint(*self.flush_ms), partial(self._flush, effect))
            case RemoveFile(path):
                self._on_disk(path, partial(self.disk.remove, path))
            case RemoveTree(path):
                self._on_disk(path, partial(self.disk.remove_directory, path))
            case StopProcess(reason):
                self.stopped = reason

    def _send(self, connection: int, parts: list[Any]) -> None:
        try:
            self.sent[connection] += joined(parts)
        except (OSError, EOFError) as error:
            self._start(CloseConnection(connection, str(error)))
            if isinstance(error, OSError):
                self._later(0, partial(self._step, FileFailed(error.filename, error)))

    def _on_disk(self, path: str, action: Action) -> None:
        try:
            action()
        except DiskFull:
            pass  # the old one stays until the next
        except OSError as error:
            self._later(0, partial(self._step, FileFailed(path, error)))

    def _flush(self, effect: Flush) -> None:
        error: OSError | DiskFull | None = None
        try:
            for unflushed in effect.work:
                unflushed.flush(self.disk)
        except (OSError, DiskFull) as failure:
            error = failure
        self._step(Flushed(effect.token, error))

    def _resume(self, connection: int) -> None:
        held = self._held.pop(connection, None)
        if held is not None and connection not in self.closed:
            reader = self._frames[connection]
            reader.is_held = False
            self._take(connection, reader.frames())
            self.send(connection, bytes(held))

    def _hold(self, connection: int) -> None:
        if connection in self._frames:
            self._frames[connection].is_held = True

    def _later(self, delay_ms: int, action: Action) -> None:
        self._count += 1
        heapq.heappush(self._actions, (self.now.monotonic_ms + delay_ms, self._count, action))
