"""Drives one node in virtual time and memory, with real frames: the simulated shell."""

from __future__ import annotations

import heapq
import random
from typing import Any

from tidelog.env import FileSlice, Now
from tidelog.events import (
    CloseConnection,
    Disconnected,
    Effect,
    Event,
    Flush,
    Flushed,
    Received,
    RemoveTree,
    ReplaceFile,
    Send,
    StopProcess,
    Ticked,
)
from tidelog.node import Node
from tidelog.sim.disk import SimulatedDisk
from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import FrameReader
from tidelog.wire.request import (
    UnsupportedApiVersions,
    decode_request,
    refuse_api_versions,
)

FLUSH_MS = (0, 4)
"""How long a flush takes, at least and at most."""
START_WALL_MS = 1_700_000_000_000


class SimulatedShell:
    """One node, one event heap, one seed."""

    def __init__(self, disk: SimulatedDisk, seed: int = 0) -> None:
        self.disk = disk
        self.rng = random.Random(seed)
        self.now = Now(0, START_WALL_MS)
        self.node: Node | None = None
        self.listener = "PLAINTEXT"
        self.stopped: str | None = None
        self.sent: dict[int, bytearray] = {}
        """What each connection has received from the node and not taken yet."""
        self.closed: dict[int, str] = {}
        self._frames: dict[int, FrameReader] = {}
        self._events: list[tuple[int, int, Event]] = []
        self._count = 0

    def connect(self) -> int:
        self._count += 1
        self._frames[self._count] = FrameReader()
        self.sent[self._count] = bytearray()
        return self._count

    def disconnect(self, connection: int) -> None:
        del self._frames[connection]
        self._step(Disconnected(connection))

    def send(self, connection: int, stream: bytes) -> None:
        """Bytes of a client, at once; frames that they complete are stepped in order."""
        assert self.node is not None
        reader = self._frames[connection]
        while stream and connection not in self.closed:
            place = reader.buffer()
            count = min(len(place), len(stream))
            place[:count] = stream[:count]
            stream = stream[count:]
            try:
                for frame in reader.received(count):
                    self._receive(connection, frame)
            except DecodeError as error:
                self.closed[connection] = str(error)

    def _receive(self, connection: int, frame: memoryview) -> None:
        assert self.node is not None
        try:
            request = decode_request(frame, self.node.served_at(self.listener))
        except UnsupportedApiVersions as refused:
            parts = refuse_api_versions(refused, self.node.served_at(self.listener))
            self.sent[connection] += b"".join(parts)
            return
        self._step(Received(connection, request, self.listener))

    def take(self, connection: int) -> bytes:
        """What the node has sent since the last call."""
        taken = bytes(self.sent[connection])
        self.sent[connection].clear()
        return taken

    def advance(self, milliseconds: int) -> None:
        """Let virtual time pass, event by event."""
        until = self.now.monotonic_ms + milliseconds
        while True:
            assert self.node is not None
            deadline = self.node.next_deadline_ms
            event_ms = self._events[0][0] if self._events else until + 1
            timer_ms = until + 1 if deadline is None else max(deadline, self.now.monotonic_ms)
            due = min(event_ms, timer_ms)
            if due > until or self.stopped is not None:
                break
            self._pass_to(due)
            if event_ms <= timer_ms:
                self._step(heapq.heappop(self._events)[2])
            else:
                self._step(Ticked())
        self._pass_to(until)

    def _pass_to(self, monotonic_ms: int) -> None:
        passed = monotonic_ms - self.now.monotonic_ms
        self.now = Now(monotonic_ms, self.now.wall_ms + passed)

    def _step(self, event: Event) -> None:
        assert self.node is not None
        for effect in self.node.step(event, self.now):
            self._start(effect)

    def _start(self, effect: Effect) -> None:
        match effect:
            case Send(connection, parts):
                if connection in self.sent:
                    self.sent[connection] += b"".join(map(_content, parts))
            case CloseConnection(connection, reason):
                self.closed[connection] = reason
            case Flush(token, work):
                error: OSError | None = None
                try:
                    for unflushed in work:
                        unflushed.flush(self.disk)
                except OSError as failure:
                    error = failure
                self._later(self.rng.randint(*FLUSH_MS), Flushed(token, error))
            case ReplaceFile(path, content):
                self.disk.replace(path, content)
            case RemoveTree(path):
                self.disk.remove_directory(path)
            case StopProcess(reason):
                self.stopped = reason

    def _later(self, delay_ms: int, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now.monotonic_ms + delay_ms, self._count, event))


def _content(part: Any) -> bytes:
    return part.read() if isinstance(part, FileSlice) else bytes(part)
