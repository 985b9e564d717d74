"""How fast events come: whether more of them are likely to come at once."""

from __future__ import annotations

from tidelog.env import Now

FAST_STEPS, FAST_MS = 16, 8
"""So many steps in this time, or more, are fast."""


class Pace:
    """Of a node's steps."""

    def __init__(self, fast_steps: int = FAST_STEPS) -> None:
        self.steps = 0
        """Since the time below; whoever takes one counts it."""
        self._fast_steps = fast_steps
        self._since_ms = 0

    def is_fast(self, now: Now) -> bool:
        elapsed_ms = max(FAST_MS, now.monotonic_ms - self._since_ms)
        is_fast = self.steps * FAST_MS >= self._fast_steps * elapsed_ms
        if elapsed_ms > FAST_MS:
            # Who was fast gets some time to show that it still is.
            self.steps = self._fast_steps if is_fast else 0
            self._since_ms = now.monotonic_ms
        return is_fast
