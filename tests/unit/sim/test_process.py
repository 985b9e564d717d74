"""What a simulated process does with files that it is to send and cannot read, and at its end."""

from __future__ import annotations

import errno
import random
from functools import partial

import pytest

from tidelog.env import FileSlice, Now
from tidelog.events import (
    CloseConnection,
    Disconnected,
    Effect,
    Event,
    FileFailed,
    Send,
    StopProcess,
)
from tidelog.runtime.alarm import NEVER
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.network import Made, Network, Socket
from tidelog.sim.process import Process
from tidelog.sim.timeline import SECOND, Clock, Timeline
from tidelog.wire.request import Served


class Program:
    """Remembers what it is told."""

    next_deadline_ms = NEVER
    waits_for_more = False

    def __init__(self) -> None:
        self.events: list[Event] = []

    def step(self, event: Event, now: Now, /) -> list[Effect]:
        self.events.append(event)
        return []

    def served_at(self, listener: str, /) -> Served:
        return {}


class Computer:
    """Runs it; somebody elsewhere has connected, and hears what it sends."""

    name = "here"
    flush_us = (0, 1)

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, random.Random(0))
        self.host, self.rng = self.network.host("here"), random.Random(0)
        self.disk, self.clock = SimulatedDisk(), Clock(self.timeline)
        self.frames: list[bytes] = []
        self.happened: list[str] = []
        self.heard, self.is_closed = b"", False
        self.program = Program()
        self.process = Process(self, self.program)
        self.process.listen({1: "PLAINTEXT"})
        self.network.connect(self.network.host("there"), "here", 1, self._connected)
        self.run()

    def _connected(self, made: Made) -> None:
        assert made.socket is not None
        made.socket.owner = self

    def run(self) -> None:
        self.timeline.run(self.timeline.now_us + SECOND)

    # As the owner of the other end.

    def received(self, socket: Socket, data: bytes) -> None:
        self.heard += data

    def closed(self, socket: Socket) -> None:
        self.is_closed = True

    # As the machine.

    def before_step(self, event: Event, frame: memoryview | None, /) -> Now:
        return self.clock.now()

    def after_step(self) -> None:
        self.happened.append("looked at")

    def sent(self, connection: int, frame: bytes, /) -> None:
        self.frames.append(frame)

    def stopped(self, reason: str, /) -> None:
        self.happened.append(reason)
        self.process.is_alive = False

    def power_failed(self) -> None:
        raise AssertionError

    def send(self, *frames: list[bytes | FileSlice]) -> None:
        def effects(now: Now) -> list[Effect]:
            return [Send(1, parts) for parts in frames]

        self.process.happen(partial(self.process.ask, effects))
        self.run()


@pytest.fixture
def computer() -> Computer:
    return Computer()


def part(computer: Computer, size: int = 3) -> FileSlice:
    file = computer.disk.open("log")
    file.append(b"abc")
    return FileSlice(file, 0, size)


def test_what_lies_in_files_is_sent(computer: Computer) -> None:
    computer.send([b"head ", part(computer)], [b" next"])
    assert computer.frames == [b"head abc", b" next"]
    assert computer.heard == b"head abc next"


def test_a_file_that_cannot_be_read_ends_the_connection(computer: Computer) -> None:
    unread, error = part(computer), OSError(errno.EIO, "so")
    computer.disk.fault = lambda operation, path: error
    computer.send([b"first"], [b"head ", unread], [b"nothing takes its place"])
    assert computer.frames == [b"first"]
    assert computer.heard == b"first"
    assert computer.is_closed
    assert computer.program.events == [Disconnected(1), FileFailed("log", error)]


def test_so_does_one_that_was_cut_but_that_is_no_fault_of_the_disk(computer: Computer) -> None:
    computer.send([part(computer, 4)])
    assert computer.heard == b""
    assert computer.is_closed
    assert computer.program.events == [Disconnected(1)]


def test_what_the_last_step_did_is_looked_at_too(computer: Computer) -> None:
    computer.happened.clear()
    last = [Send(1, [b"told"]), CloseConnection(1, "it is over"), StopProcess("a full stop")]
    computer.process.ask(lambda now: last)
    assert computer.frames == [b"told"]
    assert computer.happened == ["looked at", "a full stop"]
