"""What a decision consists of, and how one is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from tidelog.errors import ErrorCode
from tidelog.wire.declare import Message

R = TypeVar("R")

RECORDS_MAX = 10_000
"""What one request may write: all its records stand in one batch, which is atomic."""


PARTITION_COST = 10
TOPIC_COST = 200
CHANGE_COST = 25
LOOK_COST = 3
"""Microseconds that a decision about one takes, at most: about a new partition or a topic, a change
of a partition, and to see that nothing changes (slices.py)."""


class Decision(NamedTuple, Generic[R]):
    """Records to append, and the answer to give once they are committed."""

    records: Sequence[Message]
    response: R
    is_atomic: bool = True
    """All or nothing, as one batch. What happens to a broker may have very many records, and there
    every one is true by itself."""


def batches(decision: Decision[R]) -> list[Sequence[Message]]:
    """As many as it takes."""
    records = decision.records
    size = max(len(records), 1) if decision.is_atomic else RECORDS_MAX
    return [records[start : start + size] for start in range(0, len(records), size)]


MESSAGE_CHARS_MAX = 4096
"""Messages quote what was asked, and a string of the wire ends at 32767 bytes."""


class Refused(Exception):
    """A part of a request that is refused; it ends in the answer, never further up."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message and message[:MESSAGE_CHARS_MAX]
