"""Virtual time: what is to happen, in the order of its time."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from tidelog.env import Now

MS = 1000
SECOND = 1000 * MS
"""In microseconds, as all of the simulator's own times."""
START_WALL_MS = 1_700_000_000_000

Action = Callable[[], None]
_new = tuple.__new__


class Timeline:
    """One heap for the whole world. Of two actions at one time the earlier planned comes first."""

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Action]] = []
        self._count = 0

    def after(self, delay_us: int, action: Action) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._count, action))

    def at(self, time_us: int, action: Action) -> None:
        """At a time that has not passed."""
        self._count += 1
        heapq.heappush(self._heap, (time_us, self._count, action))

    def step(self) -> None:
        """Let the next thing happen."""
        self.now_us, _, action = heapq.heappop(self._heap)
        action()

    def run(self, until_us: int) -> None:
        """Let everything happen up to that time."""
        heap = self._heap
        pop = heapq.heappop
        while heap and heap[0][0] <= until_us:
            self.now_us, _, action = pop(heap)
            action()
        self.now_us = max(self.now_us, until_us)


class Clock:
    """The two clocks of one machine: each was set wrongly, and the one for timers runs too fast
    or too slow."""

    def __init__(self, timeline: Timeline, *, drift_ppm: int = 0, wall_skew_ms: int = 0) -> None:
        self._timeline = timeline
        self._rate = 1_000_000 + drift_ppm
        self.wall_skew_ms = wall_skew_ms
        """May be changed at any time: people set clocks."""

    def now(self) -> Now:
        true_us = self._timeline.now_us
        wall_ms = START_WALL_MS + self.wall_skew_ms + true_us // MS
        # Of every step: without the call that Now(...) is.
        return _new(Now, (true_us * self._rate // 1_000_000_000, wall_ms))

    def delay_us(self, monotonic_ms: int) -> int:
        """How long it is until the clock for timers shows that time."""
        due_us = -(-monotonic_ms * 1_000_000_000 // self._rate)
        return max(0, due_us - self._timeline.now_us)
