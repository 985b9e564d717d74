"""What nodes log while they are simulated: lines for the trace, and errors of ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.sim.violation import Violation


class Words(logging.Handler):
    """Takes the place of whatever a process does with the log."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self.failure: Violation | None = None
        """The first exception that a node logged: it answers its peer and goes on, but nothing
        that a peer or a disk does may lead there."""
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"  {record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info and self.failure is None:
            text = logging.Formatter().formatException(record.exc_info)
            self.failure = Violation("no request fails by an error of ours", text)


@contextmanager
def heard(say: Callable[[str], None], level: int) -> Iterator[Words]:
    """Nodes are heard by this and nobody else."""
    log = logging.getLogger("tidelog")
    words = Words(say)
    before, handlers, propagates = log.level, log.handlers, log.propagate
    log.setLevel(level)
    log.handlers, log.propagate = [words], False
    try:
        yield words
    finally:
        log.setLevel(before)
        log.handlers, log.propagate = handlers, propagates
