"""What clients did and saw: all that the checker judges by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tidelog.sim.counters import Counters
from tidelog.types import Offset, Uuid


class Place(NamedTuple):
    """A partition of a topic of that id: one made later under its name is another."""

    topic_id: Uuid
    partition: int


class Outcome(Enum):
    """What its producer knows of a batch."""

    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """It was never written."""


@dataclass(slots=True)
class Written:
    """A batch of records that a producer sent, perhaps several times."""

    producer: str
    place: Place
    values: tuple[bytes, ...]
    acks: int
    session: int | None
    """Batches with the same are of one idempotent producer, and in its order; None for a
    producer that may write twice."""
    outcome: Outcome = Outcome.UNKNOWN
    offset: Offset = -1
    """Of the first record, once it is acknowledged."""
    is_durable: bool = True
    """Whether it was promised that it outlives a machine: acks=all, min.insync.replicas ≥ 2."""


class Seen(NamedTuple):
    """A record that a consumer got."""

    consumer: str
    place: Place
    offset: Offset
    value: bytes


@dataclass(slots=True)
class History:
    """In the order in which it happened."""

    written: list[Written] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    trimmed: dict[Place, None] = field(default_factory=dict)
    """Somebody wanted records of it deleted: those below the log's start may be gone."""
    deleted_topics: dict[Uuid, None] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)
    """How many requests of clients succeeded, by their kind."""
    counters: Counters = field(default_factory=Counters)
    """Of what rarely happens to clients."""

    def succeeded(self, kind: str) -> None:
        self.operations[kind] = self.operations.get(kind, 0) + 1

    @property
    def acknowledged(self) -> int:
        """Operations of all kinds."""
        return sum(self.operations.values())

    def promised(self) -> Iterator[Written]:
        """What may not be lost."""
        for written in self.written:
            if written.outcome is Outcome.ACKNOWLEDGED and written.is_durable:
                yield written
