"""How often things happened: faults, and branches that are rarely taken."""

from __future__ import annotations

SOMETIMES = (
    "a leader began an epoch",
    "a follower truncated its log",
)
"""Rare branches that a long run must have taken."""


class Counters:
    """Names are found as they come."""

    def __init__(self) -> None:
        self.faults: dict[str, int] = {}
        self.branches: dict[str, int] = {}

    def injected(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def reached(self, branch: str) -> None:
        self.branches[branch] = self.branches.get(branch, 0) + 1

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())
