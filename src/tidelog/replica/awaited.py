"""Who waits for an offset of a partition to be reached: by its high or its low watermark."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

from tidelog.types import Offset

Place = tuple[Offset, int]


class Awaited:
    """Callbacks by offset. Each is called once; whoever then finds that it must wait on adds
    itself again."""

    __slots__ = ("_callbacks", "_count", "_places")

    def __init__(self) -> None:
        self._count = 0
        self._places: list[Place] = []
        """In the order of offsets, which mostly is that of coming."""
        self._callbacks: dict[Place, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, offset: Offset, then: Callable[[], None]) -> Place:
        self._count += 1
        place = offset, self._count
        insort(self._places, place)
        self._callbacks[place] = then
        return place

    def remove(self, place: Place) -> None:
        """It does not wait any more; nothing happens if it was called already."""
        if self._callbacks.pop(place, None) is not None:
            del self._places[bisect_left(self._places, place)]

    def reached(self, offset: Offset) -> None:
        """Call those who wait for this offset or one before."""
        self._call(bisect_left(self._places, (offset + 1, 0)))

    def all(self) -> None:
        """Call everybody: what they wait for may never come."""
        self._call(len(self._places))

    def _call(self, count: int) -> None:
        called = [self._callbacks.pop(place) for place in self._places[:count]]
        del self._places[:count]
        for then in called:
            then()
