"""What a broker does again and again, and what it does once, later."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from tidelog.env import Now
from tidelog.runtime.alarm import Alarm

Task = Callable[[Now], None]


class Schedule:
    """Tasks by the monotonic clock, in the order of their times."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._tasks: list[tuple[int, int, Task]] = []
        self._count = 0

    def at(self, time_ms: int, task: Task) -> None:
        self._count += 1
        heapq.heappush(self._tasks, (time_ms, self._count, task))
        self._alarm.not_later_than(time_ms)

    def every(self, interval_ms: int, first_ms: int, task: Task) -> None:
        """First at first_ms; a late run does not make up for those that it missed."""

        def run(now: Now) -> None:
            try:
                task(now)
            finally:  # what fails once is done again
                self.at(now.monotonic_ms + interval_ms, run)

        self.at(first_ms, run)

    def run(self, now: Now) -> None:
        """Do what is due. What that adds for now waits for the next run: a long job that comes
        in pieces leaves room for others between two of them."""
        due = []
        while self._tasks and self._tasks[0][0] <= now.monotonic_ms:
            due.append(heapq.heappop(self._tasks)[2])
        for task in due:
            task(now)

    def is_due(self, now: Now) -> bool:
        return bool(self._tasks) and self._tasks[0][0] <= now.monotonic_ms

    @property
    def next_ms(self) -> int | None:
        return self._tasks[0][0] if self._tasks else None
