"""Which names somebody may have meant who wrote one that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

NEAREST_MAX = 3
ALIKE_MIN = 0.5
NAME_CHARS_MAX = 100
"""A longer one is no slip of the pen, and would take long to compare."""


def allowed_names(name: str, names: Iterable[str]) -> str:
    """The end of the sentence that refuses a name."""
    found = ", ".join(nearest(name, names))
    return f" (allowed: what docs/configuration.md lists{found and f'; nearest: {found}'})"


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The names that share most of their threes of letters with this one, the most alike first.

    Strangers send names, so this has to be quick, which difflib is not.
    """
    if len(name) > NAME_CHARS_MAX:
        return []
    wanted = _threes(name.lower().replace("_", "."))
    alike = []
    for candidate in names:
        found = _threes_of_key(candidate)
        score = 2 * len(wanted & found) / (len(wanted) + len(found))
        if score >= ALIKE_MIN:
            alike.append((-score, candidate))
    return [candidate for _, candidate in sorted(alike)[:NEAREST_MAX]]


def _threes(name: str) -> frozenset[str]:
    padded = f"^{name}$"
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


_threes_of_key = cache(_threes)
