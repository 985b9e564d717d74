"""Work that is longer than a step, done in pieces: see `slices.py`. One step does pieces of one
job; requests of others have their turn between two steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tidelog.env import Now
from tidelog.runtime.alarm import Alarm
from tidelog.slices import Slices

STEP_COST_MAX = 1000
"""Microseconds of pieces in one step: far below 5 ms, because a piece says what it costs on a
machine that has nothing else to do."""


class Job:
    """Some pieces that are left, and who wants the result."""

    __slots__ = ("is_done", "slices", "then")

    def __init__(self, slices: Slices[Any], then: Callable[[Any], None] | None) -> None:
        self.slices = slices
        self.then = then
        self.is_done = False

    def cancel(self) -> None:
        """Nobody wants the result any more: no other piece is done."""
        self.then = None
        self.slices.close()


class Jobs:
    """All such work of a broker; each job has its turn."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._waiting: deque[Job] = deque()
        self.extra_cost = 0
        """What the present piece takes beyond what it will say: files that it has to make."""
        self._now = Now(0, 0)
        """Of the step that last did pieces."""

    def __len__(self) -> int:
        return len(self._waiting)

    def start(
        self, slices: Slices[Any], now: Now, then: Callable[[Any], None] | None = None
    ) -> Job:
        """Do a step's worth at once, which most often is all of it."""
        job = Job(slices, then)
        self._work(job, now)
        return job

    def fresh(self, now: Now) -> Now:
        """The time for a piece of work that began at now, perhaps steps ago. (What counts from a
        request's arrival is to use that.)"""
        return self._now if self._now.monotonic_ms > now.monotonic_ms else now

    def add(self, slices: Slices[Any], now: Now) -> None:
        """Do it in steps to come."""
        self._waiting.append(Job(slices, None))
        self._alarm.not_later_than(now.monotonic_ms)

    def run(self, now: Now) -> None:
        """A step's worth of the job whose turn it is."""
        if self._waiting:
            self._work(self._waiting.popleft(), now)

    def _work(self, job: Job, now: Now) -> None:
        self._now = self.fresh(now)
        cost = self.extra_cost = 0  # what others have made files for is not this job's
        try:
            while cost < STEP_COST_MAX:
                cost += next(job.slices) + self.extra_cost
                self.extra_cost = 0
        except StopIteration as done:
            job.is_done = True
            if job.then is not None:
                job.then(done.value)
        else:
            self._waiting.append(job)
        if self._waiting:
            self._alarm.not_later_than(now.monotonic_ms)
