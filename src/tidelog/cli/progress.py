"""A line on a terminal that says how far a long command is. Nothing where nobody looks."""

from __future__ import annotations

import sys
import time

SHOWN_EVERY_SECONDS = 0.2
SILENT_SECONDS = 0.5
"""What is done by then needs no progress."""


class Progress:
    """How much is done, and how fast, on standard error."""

    def __init__(self, verb: str, *, is_shown: bool = True) -> None:
        self.verb = verb
        self._is_shown = is_shown and sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + SILENT_SECONDS
        self._is_drawn = False

    def show(self, records: int) -> None:
        """Draw the line anew, but not too often."""
        seconds = self._due()
        if seconds:
            self._draw(f"{self.verb} {records:,} records, {records / seconds:,.0f}/s")

    def show_bytes(self, done: int, total: int) -> None:
        """The same where the end is known."""
        seconds = self._due()
        if seconds:
            how_far = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
            self._draw(f"{self.verb} {how_far}, {done / 1e6 / seconds:,.0f} MB/s")

    def _due(self) -> float:
        """How long it has taken so far; zero if nothing is to be drawn now."""
        now = time.monotonic()
        if not self._is_shown or now < self._next:
            return 0
        self._next = now + SHOWN_EVERY_SECONDS
        return now - self._began

    def _draw(self, text: str) -> None:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        self._is_drawn = True

    def close(self) -> None:
        """Leave the line empty for what comes next."""
        if self._is_drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_drawn = False
