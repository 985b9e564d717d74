"""Leaderships that dead brokers lost a moment ago, and who has been told that nobody had them
(ADR 14).

librdkafka forgets a broker that Metadata does not list any more, and with it the new leader of
partitions that the same answer moves away from it: until it looks at its topics again, up to a
second later. So each connection is told first that they have no leader, and asks again soon.

In the epoch that was: a client that has heard of the next leader by another connection meanwhile
knows this for old news.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Now
from tidelog.events import ConnectionId
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.slices import Slices
from tidelog.types import Uuid
from tidelog.wire.declare import Message

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

MOVED_MS = 1000
"""After which clients that lost a leader have asked. One that had no other connection waits for
half a second before it looks for one."""
RECORD_US = 1
"""A change of a partition, roughly."""
TOLD_MAX = 10_000
"""Connections, times the brokers that are missing for them; who comes later is told at once."""


class Lost(NamedTuple):
    """A leadership."""

    broker_id: int
    leader_epoch: int


class MovedLeaders:
    """Of one second."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._image = broker.image
        """As it was before the records that come next."""
        self._moved: dict[tuple[Uuid, int], Lost] = {}
        """By topic id and index, of brokers that have not handed them over."""
        self._told: set[tuple[ConnectionId, int]] = set()
        self._moved_end_ms = self._told_end_ms = 0

    def begin(self) -> None:
        """From here on: what was before, or what a snapshot tells, happened at another time."""
        self._image = self._broker.image

    def apply(self, records: Sequence[Message], now: Now) -> Slices[None]:
        """The image has them already."""
        before, self._image = self._image, self._broker.image
        self._forget(now)
        for record in records:
            if not isinstance(record, PartitionChangeRecord) or record.leader < 0:
                continue
            state = before.partition_by_id(record.topic_id, record.partition_id)
            if state is None or not 0 <= state.leader != record.leader:
                continue
            yield RECORD_US
            broker = self._image.brokers.get(state.leader)
            if broker is not None and broker.in_controlled_shutdown and not broker.fenced:
                self._moved.pop((record.topic_id, record.partition_id), None)
                continue
            # Perhaps not dead yet: that record comes last, and perhaps in a batch of its own.
            lost = Lost(state.leader, state.leader_epoch)
            self._moved[record.topic_id, record.partition_id] = lost
            self._moved_end_ms = now.monotonic_ms + MOVED_MS

    def lost_by(
        self, connection: ConnectionId, topic_id: Uuid, index: int, now: Now
    ) -> Lost | None:
        """What the dead broker had that led the partition; None if it lives on, or the client
        behind this connection has been told that it leads nothing."""
        if not self._moved or now.monotonic_ms >= self._moved_end_ms or len(self._told) >= TOLD_MAX:
            return None
        lost = self._moved.get((topic_id, index))
        if lost is None or (connection, lost.broker_id) in self._told:
            return None
        return lost if self._is_gone(lost.broker_id) else None

    def _is_gone(self, broker_id: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is None or broker.fenced

    def told(self, connection: ConnectionId, broker_ids: Iterable[int], now: Now) -> None:
        """The client behind this connection knows that these brokers lead nothing."""
        self._forget(now)
        if len(self._told) < TOLD_MAX:
            self._told.update((connection, broker_id) for broker_id in broker_ids)
            self._told_end_ms = now.monotonic_ms + MOVED_MS

    def _forget(self, now: Now) -> None:
        if now.monotonic_ms >= self._moved_end_ms:
            self._moved.clear()
        if now.monotonic_ms >= max(self._moved_end_ms, self._told_end_ms):
            self._told.clear()
