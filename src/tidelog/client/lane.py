"""What a producer has sent, or has still to send, to one partition."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile

from tidelog.client.produce import Batch

SEQUENCE_END = 1 << 31
"""Sequences are 31 bits and start over."""


@dataclass(slots=True, eq=False)
class Unacknowledged:
    """A batch without an answer, so far."""

    batch: Batch
    record_count: int
    last_sequence: int
    sent_ms: int
    failures: int = 0
    is_in_flight: bool = False
    is_acknowledged: bool = False


@dataclass(slots=True)
class Lane:
    """A partition's batches, oldest first."""

    batches: deque[Unacknowledged] = field(default_factory=deque)
    next_sequence: int = 0
    is_acquainted: bool = False
    """The partition has a batch of this producer. A broker that knows nothing of a producer takes
    any sequence of it: were the first batch refused and the second taken, the first would be out
    of order for ever. So the first goes alone."""
    is_retrying: bool = False
    """A batch failed: nothing is sent until nothing is in flight, then all of it again."""

    @property
    def in_flight(self) -> int:
        return sum(entry.is_in_flight for entry in self.batches)

    def up_to(self, last_sequence: int | None) -> list[Unacknowledged]:
        """The batches that a partition has whose last record of this producer is that one: it
        takes them in order only. None: it knows no such producer."""
        if last_sequence is None:
            return []

        def is_written(entry: Unacknowledged) -> bool:
            # They start over, but what is not acknowledged never lies half of them apart.
            return (last_sequence - entry.last_sequence) % SEQUENCE_END < SEQUENCE_END // 2

        return list(takewhile(is_written, self.batches))
