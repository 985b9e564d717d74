"""What the simulator is for."""

from __future__ import annotations


class Violation(Exception):
    """Something happened that must never happen."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(invariant, detail)
        self.invariant = invariant
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}"
