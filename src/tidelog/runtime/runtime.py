"""What a node's roles share in a step: the effects that they ask for, time, flushes, peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidelog.env import DiskFull, Now, Rng, Work
from tidelog.events import Effect, Flush, Flushed, Lane
from tidelog.runtime.alarm import NEVER, Alarm
from tidelog.runtime.jobs import Jobs
from tidelog.runtime.peers import Peers
from tidelog.runtime.purgatory import Purgatory
from tidelog.runtime.schedule import Schedule

FlushDone = Callable[[OSError | DiskFull | None, Now], None]


class Timed(Protocol):
    """A part of a node that keeps its own time."""

    @property
    def next_deadline_ms(self) -> int: ...
    def tick(self, now: Now) -> None: ...


class Runtime:
    """Everything here changes inside `node.step` alone."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.effects: list[Effect] = []
        """What this step asks of the shell; the node takes it away at its end."""
        self.alarm = Alarm()
        self.purgatory = Purgatory(self.alarm)
        self.schedule = Schedule(self.alarm)
        self.jobs = Jobs(self.alarm)
        self.peers = Peers(self.effects, self.schedule)
        self.timed: list[Timed] = []
        """The quorum; others use the schedule."""
        self._flushes: dict[int, FlushDone] = {}
        self._flush_count = 0

    def flush(self, work: tuple[Work, ...], then: FlushDone, lane: Lane = Lane.SOME_DAY) -> None:
        """Have it made durable outside the step; then is called in a later one."""
        self._flush_count += 1
        self._flushes[self._flush_count] = then
        self.effects.append(Flush(self._flush_count, work, lane))

    def flushed(self, event: Flushed, now: Now) -> None:
        self._flushes.pop(event.token)(event.error, now)

    def tick(self, now: Now) -> None:
        """Do what is due."""
        self.schedule.run(now)
        self.purgatory.expire(now)
        for part in self.timed:
            if part.next_deadline_ms <= now.monotonic_ms:
                part.tick(now)
        self.alarm.time_ms = min(
            self.schedule.next_ms or NEVER, self.purgatory.next_deadline_ms or NEVER
        )
        self.jobs.run(now)
        self.heed_timed()

    def heed_timed(self) -> None:
        """After whatever may have changed their deadlines."""
        for part in self.timed:
            self.alarm.not_later_than(part.next_deadline_ms)
