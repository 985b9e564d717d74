"""How fast events come: whether more of them are likely to come at once."""

from __future__ import annotations

from tidelog.env import Now

FAST_STEPS, FAST_MS = 48, 8
"""So many steps in this time, or more, are fast: some thousands of records a second on three nodes.
Below that more are seldom about to come, and to wait for them is time lost."""


class Pace:
    """Of a node's steps."""

    def __init__(self, fast_steps: int = FAST_STEPS) -> None:
        self.steps = 0
        """Since the time below; whoever takes one counts it."""
        self._fast_steps = fast_steps
        self._since_ms = 0
        self._was_fast = False
        """Until then: it gets some time to show that it still is."""

    def is_fast(self, now: Now) -> bool:
        elapsed_ms = now.monotonic_ms - self._since_ms
        if elapsed_ms > FAST_MS:
            self._was_fast = self.steps * FAST_MS >= self._fast_steps * elapsed_ms
            self.steps, self._since_ms = 0, now.monotonic_ms
        return self._was_fast or self.steps >= self._fast_steps
