"""A line on a terminal that says how far a long command is. Nothing where nobody looks."""

from __future__ import annotations

import sys
import time

SHOWN_EVERY_SECONDS = 0.2
SILENT_SECONDS = 0.5
"""What is done by then needs no progress."""


class Progress:
    """Records done, and how fast, on standard error."""

    def __init__(self, verb: str, *, is_shown: bool = True) -> None:
        self.verb = verb
        self._is_shown = is_shown and sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + SILENT_SECONDS
        self._is_drawn = False

    def show(self, records: int) -> None:
        """Draw the line anew, but not too often."""
        now = time.monotonic()
        if self._is_shown and now >= self._next:
            self._next = now + SHOWN_EVERY_SECONDS
            rate = records / (now - self._began)
            text = f"{self.verb} {records:,} records, {rate:,.0f}/s"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._is_drawn = True

    def close(self) -> None:
        """Leave the line empty for what comes next."""
        if self._is_drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_drawn = False
