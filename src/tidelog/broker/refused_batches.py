"""Batches of idempotent producers that were refused for now: those behind may not overtake them.

A producer has up to five requests on their way. One is refused, as too few replicas are in sync,
and the next ones come when there are enough again. Apache Kafka has forgotten the first by then.
Of a producer that it does not know it takes the next for the beginning, and the first is lost or
its producer fails; any other it answers OUT_OF_ORDER_SEQUENCE_NUMBER, on which librdkafka raises
its epoch and may write again what is written (its issue 4953). So until the first has come again
those behind it are refused as it was, and the client sends all of them again in their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.producer_state import SEQUENCE_MAX, SequencedBatch, sequence_after
from tidelog.replica.partition import Partition
from tidelog.types import Uuid
from tidelog.wire.batch import RecordBatch, read_batch
from tidelog.wire.batch_validation import Refusal, ValidBatch

ENTRIES_MAX = 10_000
"""Producers and partitions together; beyond it the oldest is forgotten."""
KEPT_MS = 30_000
"""A client retries sooner, or not at all."""


class Refused(NamedTuple):
    """The first of a producer's batches that was refused."""

    producer_epoch: int
    base_sequence: int
    error: ErrorCode
    time_ms: int


Target = Partition | tuple[str | Uuid, int]
"""One that is not here, or not yet, is known by what the client calls it: by its topic's name or
id, and its number."""


class RefusedBatches:
    """Of all partitions of a broker."""

    def __init__(self) -> None:
        self.partitions: dict[Target, dict[int, None]] = {}
        """Those that have some, and of which producers. In others nothing need be asked."""
        self._first: dict[tuple[Target, int], Refused] = {}
        """By partition and producer id, most often the oldest first."""

    def refuse(self, partition: Target, records: Any, error: ErrorCode, now: Now) -> None:
        """Nothing was appended, but may be soon."""
        batch = _sequenced(records)
        if batch is None or batch.producer_id < 0:
            return
        self._forget_old(now)
        key = partition, batch.producer_id
        known = self._first.get(key)
        if known is not None and self._is_before(known, partition, batch):
            return
        refused = Refused(batch.producer_epoch, batch.base_sequence, error, now.monotonic_ms)
        if self._is_over(refused, *key):
            return  # a retry of what is in the log: it is nobody's turn
        self._forget(key)
        if len(self._first) >= ENTRIES_MAX:
            if not isinstance(partition, Partition):
                return  # what may never be pushes out nothing that is
            self._forget(next(iter(self._first)))
        self._remember(key, refused)

    def opened(self, partition: Partition) -> None:
        """It is here now: what was refused before its broker knew of it counts."""
        for topic in (partition.topic, partition.topic_id):
            target = topic, partition.index
            for producer_id in list(self.partitions.get(target, ())):
                refused = self._forget((target, producer_id))
                if refused is not None:
                    self._remember((partition, producer_id), refused)

    def forget(self, partition: Partition) -> None:
        """It is not here any more."""
        for producer_id in list(self.partitions.get(partition, ())):
            self._forget((partition, producer_id))

    def error(self, partition: Partition, batch: SequencedBatch, now: Now) -> ErrorCode | None:
        """What one gets that has to wait for another. Whose turn it is need not be remembered."""
        self._forget_old(now)
        key = partition, batch.producer_id
        known = self._first.get(key)
        if known is None:
            return None
        if self._is_old(known, now):
            self._forget(key)
            return None
        if self._is_before(known, partition, batch):
            return known.error
        if batch.base_sequence == known.base_sequence or self._is_over(known, *key):
            self._forget(key)
        return None

    def _is_before(self, known: Refused, partition: Target, batch: SequencedBatch) -> bool:
        if batch.producer_epoch != known.producer_epoch:
            return False
        if self._is_over(known, partition, batch.producer_id):
            return False
        ahead = sequence_after(batch.base_sequence, -known.base_sequence)
        return 0 < ahead <= SEQUENCE_MAX // 2

    def _is_over(self, known: Refused, partition: Target, producer_id: int) -> bool:
        """Whether the log has gone on without it, or with it."""
        if not isinstance(partition, Partition):
            return False
        producer = partition.log.producers.get(producer_id)
        if producer is None or producer.producer_epoch < known.producer_epoch:
            return False
        if producer.producer_epoch > known.producer_epoch:
            return True
        return sequence_after(producer.last_sequence, 1) != known.base_sequence

    def _forget_old(self, now: Now) -> None:
        while self._first:
            key, oldest = next(iter(self._first.items()))
            if not self._is_old(oldest, now):
                return
            self._forget(key)

    @staticmethod
    def _is_old(refused: Refused, now: Now) -> bool:
        return now.monotonic_ms - refused.time_ms >= KEPT_MS

    def _remember(self, key: tuple[Target, int], refused: Refused) -> None:
        target, producer_id = key
        self._first[key] = refused
        self.partitions.setdefault(target, {})[producer_id] = None

    def _forget(self, key: tuple[Target, int]) -> Refused | None:
        target, producer_id = key
        refused = self._first.pop(key, None)
        if refused is not None:
            del self.partitions[target][producer_id]
            if not self.partitions[target]:
                del self.partitions[target]
        return refused


def _sequenced(records: Any) -> SequencedBatch | None:
    """Of a request whose records nobody may have looked at."""
    if records is None or isinstance(records, ValidBatch | Refusal):
        return records.batch if isinstance(records, ValidBatch) else None
    batch = read_batch(memoryview(records), 0, len(records))
    return batch if isinstance(batch, RecordBatch) and batch.crc_is_right() else None
