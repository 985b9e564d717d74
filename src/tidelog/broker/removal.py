"""What is left of deleted replicas goes when nobody can be reading it any more."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.events import RemoveTree
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices

REMOVE_TREE_COST = 20
"""Microseconds for a directory (slices.py)."""


def remove_later(runtime: Runtime, paths: list[str], delay_ms: int, now: Now) -> None:
    if paths:
        removal = _remove(runtime, paths)
        due_ms = now.monotonic_ms + delay_ms
        runtime.schedule.at(due_ms, lambda now: runtime.jobs.add(removal, now))


def _remove(runtime: Runtime, paths: list[str]) -> Slices[None]:
    for path in paths:
        runtime.effects.append(RemoveTree(path))
        yield REMOVE_TREE_COST
