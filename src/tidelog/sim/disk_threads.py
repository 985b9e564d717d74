"""The threads in which a simulated process has its disk work done, lane by lane."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidelog.sim.timeline import Action


class DiskThreads:
    """Of one lane. What they do has the order in which it was asked for; what those of another
    lane do has none beside it."""

    def __init__(self, count: int, after_a_while: Callable[[Action], None]) -> None:
        self._count = count
        self._after_a_while = after_a_while
        """Calls back when a thread has done its work."""
        self._queue: deque[Action] = deque()
        self._busy = 0

    def do(self, action: Action) -> None:
        """The disk is asked only when a thread's time has come: what happens in between, happens
        in between."""
        self._queue.append(action)
        if self._busy < self._count:
            self._busy += 1
            self._after_a_while(self._done)

    def _done(self) -> None:
        self._queue.popleft()()
        if len(self._queue) >= self._busy:
            self._after_a_while(self._done)
        else:
            self._busy -= 1
