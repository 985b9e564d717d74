"""What a planted bug is."""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """What one module reads, and what it is to read."""

    module: str
    old: str
    new: str


class Mutant(NamedTuple):
    """One bug."""

    name: str
    seed: int
    changes: tuple[Change, ...]

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(change.module for change in self.changes)


def mutant(name: str, seed: int, *changes: tuple[str, str, str]) -> Mutant:
    return Mutant(name, seed, tuple(Change(f"tidelog.{one[0]}", *one[1:]) for one in changes))
