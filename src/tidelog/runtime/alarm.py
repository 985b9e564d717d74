"""When the node wants to be woken: kept as a number, because the shell asks after every step."""

from __future__ import annotations

NEVER = (1 << 63) - 1


class Alarm:
    """Invariant: time_ms is not later than the first thing that is due."""

    __slots__ = ("time_ms",)

    def __init__(self) -> None:
        self.time_ms = NEVER

    def not_later_than(self, time_ms: int) -> None:
        if time_ms < self.time_ms:
            self.time_ms = time_ms
