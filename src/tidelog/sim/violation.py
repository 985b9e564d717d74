"""What the simulator is for."""

from __future__ import annotations

from collections.abc import Callable


class Violation(Exception):
    """Something happened that must never happen."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(invariant, detail)
        self.invariant = invariant
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}"


def require(is_so: bool, invariant: str, detail: Callable[[], str]) -> None:
    """Where it is not so often asked that making the detail ready would cost too much."""
    if not is_so:
        raise Violation(invariant, detail())
