"""Ctrl-C for a command that has promises to keep: the first ends its input, the second ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class Interrupts:
    """The first one breaks off nothing but reading: what talks to brokers would be left between two
    steps. `waits_for` is asked what there is to wait for then; empty if nothing."""

    def __init__(self, waits_for: Callable[[], str]) -> None:
        self.have_come = False
        self._waits_for = waits_for
        self._is_reading = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._come)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def reading(self, source: Iterable[T]) -> Iterator[T]:
        """What comes until the first interrupt."""
        items = iter(source)
        while not self.have_come:
            self._is_reading = True
            try:
                item = next(items)
            except (KeyboardInterrupt, StopIteration):
                return
            finally:
                self._is_reading = False
            yield item

    def _come(self, number: int, frame: FrameType | None) -> None:
        if self.have_come:
            raise KeyboardInterrupt
        self.have_come = True
        what = self._waits_for()
        if what:
            # Not by way of a file object, in which we may be just now.
            os.write(2, f"\nWaiting for {what}; Ctrl-C again ends at once\n".encode())
        if self._is_reading:
            raise KeyboardInterrupt
