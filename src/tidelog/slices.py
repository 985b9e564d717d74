"""Work that may take longer than a step is a generator: after each piece it yields what the piece
cost, in microseconds (a rough guess will do), and in the end it returns the result.

`yield from` puts such work together. Who runs it stops between two pieces when a step is full:
`runtime/jobs.py`. Where nobody waits, `finish` does all of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

Slices = Generator[int, None, R]


def finish(slices: Slices[R]) -> R:
    """All pieces at once; the result."""
    try:
        while True:
            next(slices)
    except StopIteration as done:
        result: R = done.value
        return result


def each(items: Iterable[T], function: Callable[[T], R], cost: int) -> Slices[tuple[R, ...]]:
    """What the function makes of each item, a piece each."""
    yield 1  # there may be very many calls without an item
    made: list[R] = []
    for item in items:
        made.append(function(item))
        yield cost
    return tuple(made)
