"""What happened, as a hash and, for those who want to read it, as lines."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable

from tidelog.events import (
    Answered,
    Connected,
    ConnectFailed,
    Disconnected,
    Event,
    FileFailed,
    Flushed,
    Received,
    Ticked,
    TurnEnded,
)
from tidelog.sim.timeline import SECOND, Timeline

UNHASHED_MAX = 500
_STEP = struct.Struct(">QHBq")
_CODES: dict[type[Event], int] = {
    Received: 1,
    Connected: 2,
    ConnectFailed: 3,
    Answered: 4,
    Disconnected: 5,
    Ticked: 6,
    Flushed: 7,
    FileFailed: 8,
    TurnEnded: 9,
}


class Trace:
    """Every step of every program counts, with the bytes that caused it."""

    def __init__(self, timeline: Timeline, show: Callable[[str], None] | None = None) -> None:
        self.steps = 0
        self.is_shown = show is not None
        self._show = show
        self._timeline = timeline
        self._hash = hashlib.blake2b(digest_size=16)
        self._unhashed: list[bytes] = []
        """Of the last steps: one call for many is cheaper."""

    @property
    def now_us(self) -> int:
        return self._timeline.now_us

    def step(self, machine: int, event: Event, frame: memoryview | None) -> None:
        self.steps += 1
        code = _CODES[event.__class__]
        connection = getattr(event, "connection", 0)
        header = _STEP.pack(self._timeline.now_us, machine, code, connection)
        unhashed = self._unhashed
        # The frame is good for this step alone.
        unhashed.append(header if frame is None else header + frame)
        if len(unhashed) > UNHASHED_MAX:
            self._catch_up()

    def _catch_up(self) -> None:
        self._hash.update(b"".join(self._unhashed))
        self._unhashed.clear()

    def say(self, line: str) -> None:
        """Something that is not a step: a fault, a word of a node."""
        self._unhashed.append(line.encode())
        if self._show is not None:
            self._show(f"{self._timeline.now_us / SECOND:11.6f} {line}")

    def show(self, line: str) -> None:
        """For the reader alone."""
        if self._show is not None:
            self._show(f"{self._timeline.now_us / SECOND:11.6f} {line}")

    @property
    def digest(self) -> str:
        self._catch_up()
        return self._hash.hexdigest()
