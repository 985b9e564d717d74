"""A transport without a socket and a node without a broker: what a shell does, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tidelog.env import Now
from tidelog.events import Effect, Event, Received
from tidelog.runtime.alarm import Alarm
from tidelog.server.connection import Connection
from tidelog.server.shell import Shell
from tidelog.wire.api import APIS
from tidelog.wire.request import Served


class FakeTransport(asyncio.Transport):
    """Sends nothing until told to `drain`; keeps the protocol informed as real ones do."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None
        self.written = bytearray()
        self.unsent = 0
        self.takes = 0
        """How much the peer takes at once, before anything is buffered."""
        self.high, self.low = 64 << 10, 16 << 10
        self.is_paused = self.is_reading = False
        self.is_closed = False

    def connect(self, protocol: Connection) -> Connection:
        self.protocol, self.is_reading = protocol, True
        protocol.connection_made(self)
        return protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("client", 1) if name == "peername" else default

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert not self.is_closed
        self.high, self.low = high, high // 4
        self._maybe_pause()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: Any) -> None:
        self.written += data
        taken = min(self.takes, len(data)) if not self.unsent else 0
        self.takes -= taken
        self.unsent += len(data) - taken
        self._maybe_pause()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def drain(self, size: int) -> None:
        """The peer takes so much."""
        self.unsent = max(0, self.unsent - size)
        if self.is_paused and self.unsent <= self.low:
            self.is_paused = False
            self.protocol.resume_writing()

    def _maybe_pause(self) -> None:
        if self.unsent > self.high and not self.is_paused:
            self.is_paused = True
            self.protocol.pause_writing()


class ScriptedNode:
    """Answers each event as a test says, and keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[Now] = []
        self.script: Callable[[Event], list[Effect]] = lambda event: []
        self.at_stop: Callable[[], list[Effect]] = list
        self.is_busy = self.waits_for_more = False
        self.rows = SimpleNamespace(bytes=0)
        self.alarm = Alarm()
        self.broker = SimpleNamespace(
            hosting=SimpleNamespace(recompressing={}, by_name={}, by_id={})
        )
        self.config = SimpleNamespace(is_broker=True)
        self.runtime = SimpleNamespace(alarm=self.alarm)

    def step(self, event: Event, now: Now) -> list[Effect]:
        self.events.append(event)
        self.times.append(now)
        return self.script(event)

    def stop(self, now: Now) -> list[Effect]:
        return self.at_stop()

    def served_at(self, listener: str) -> Served:
        return {key: api.versions for key, api in APIS.items()}

    @property
    def requests(self) -> list[int]:
        """The correlation ids received."""
        received = [event.request for event in self.events if isinstance(event, Received)]
        return [request.correlation_id for request in received]


def scripted_shell(disk: Any = None) -> tuple[Shell, ScriptedNode]:
    node: Any = ScriptedNode()
    return Shell(node, disk, request_bytes_max=1 << 20, idle_ms_max=600_000), node


def connect(shell: Shell) -> tuple[Connection, FakeTransport]:
    transport = FakeTransport()
    return transport.connect(Connection(shell.listener("PLAINTEXT"))), transport


def receive(connection: Connection, stream: bytes) -> None:
    """The bytes arrive together."""
    while stream:
        place = connection.get_buffer(-1)
        count = min(len(place), len(stream))
        place[:count] = stream[:count]
        connection.buffer_updated(count)
        stream = stream[count:]
