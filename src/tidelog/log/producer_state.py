"""What a log knows about its producers: the last batches of each, and open transactions.

A retried batch is recognised by its sequence numbers and answered with the offsets it got the
first time. What is kept here is a function of the log's batches, so that every replica and every
restart comes to the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tidelog.errors import ErrorCode
from tidelog.types import Offset
from tidelog.wire.batch import TRANSACTIONAL

BATCHES_MAX = 5
"""A producer has at most so many requests in flight, so it retries no older batch."""
SEQUENCE_MAX = (1 << 31) - 1
NO_SEQUENCE = -1
NO_EPOCH = -1
NO_OFFSET = -1


class SequencedBatch(Protocol):
    """What of a batch is asked here: a RecordBatch, or a request's only one."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def attributes(self) -> int: ...


class KnownBatch(NamedTuple):
    """One of a producer's last batches."""

    base_sequence: int
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> Offset:
        """Of its first record."""
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction whose marker has been appended."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    """Of the marker."""
    is_aborted: bool


class Producer:
    """What is known of one producer."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: list[KnownBatch] = []
        """The last ones of this epoch, oldest first."""
        self.coordinator_epoch = NO_EPOCH
        self.current_txn_first_offset: Offset | None = None
        self.last_timestamp = -1

    @property
    def last_sequence(self) -> int:
        """-1 if it is known by a marker only."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> Offset:
        """Of its last data batch."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def begin_epoch(self, producer_epoch: int) -> None:
        """Sequences start anew with each epoch."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()


class ProducerStates:
    """All producers of a log."""

    __slots__ = ("_open", "_producers", "unreplicated")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._open: dict[Offset, int] = {}
        """First offset of an open transaction -> its producer, in the order of offsets."""
        self.unreplicated: list[CompletedTransaction] = []
        """Completed, but the marker is not yet below the high watermark: still unstable."""

    def __len__(self) -> int:
        return len(self._producers)

    def active(self) -> Iterator[Producer]:
        """All that are known."""
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        """None if nothing is known."""
        return self._producers.get(producer_id)

    def restore(self, producer: Producer) -> None:
        """From a snapshot."""
        self._producers[producer.producer_id] = producer
        if producer.current_txn_first_offset is not None:
            self._open[producer.current_txn_first_offset] = producer.producer_id
            self._open = dict(sorted(self._open.items()))

    def clear(self) -> None:
        """Nothing is known any more."""
        self._producers.clear()
        self._open.clear()
        self.unreplicated.clear()

    def check(self, batch: SequencedBatch) -> KnownBatch | ErrorCode | None:
        """May this client's batch be appended? The known batch if it is a retry, the error if
        it is not its turn, else None. batch.producer_id is at least 0."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.producer_epoch == NO_EPOCH:
            return None  # any first sequence: what came before may have been deleted
        base_sequence, epoch = batch.base_sequence, batch.producer_epoch
        if epoch != producer.producer_epoch:
            if epoch < producer.producer_epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return self._check_transaction(producer, batch)
        last = producer.last_sequence
        if base_sequence == last + 1 or (base_sequence == 0 and last == SEQUENCE_MAX):
            return self._check_transaction(producer, batch)
        last_sequence = sequence_after(base_sequence, batch.last_offset_delta)
        for known in producer.batches:
            if known.base_sequence == base_sequence and known.last_sequence == last_sequence:
                return known
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _check_transaction(self, producer: Producer, batch: SequencedBatch) -> ErrorCode | None:
        is_open = producer.current_txn_first_offset is not None
        if is_open and not batch.attributes & TRANSACTIONAL:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def update(self, batch: SequencedBatch, base_offset: Offset, max_timestamp: int) -> None:
        """A data batch of a producer has been appended at base_offset."""
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            producer = self._producers[batch.producer_id] = Producer(batch.producer_id)
        if batch.producer_epoch != producer.producer_epoch:
            producer.begin_epoch(batch.producer_epoch)
        delta, base_sequence = batch.last_offset_delta, batch.base_sequence
        last_sequence = base_sequence + delta
        if last_sequence > SEQUENCE_MAX:
            last_sequence = sequence_after(base_sequence, delta)
        batches = producer.batches
        batches.append(
            KnownBatch(base_sequence, last_sequence, base_offset + delta, delta, max_timestamp)
        )
        if len(batches) > BATCHES_MAX:
            del batches[0]
        producer.last_timestamp = max_timestamp
        if batch.attributes & TRANSACTIONAL and producer.current_txn_first_offset is None:
            producer.current_txn_first_offset = base_offset
            self._open[base_offset] = batch.producer_id

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        offset: Offset,
        timestamp: int,
        coordinator_epoch: int,
        is_aborted: bool,
    ) -> CompletedTransaction | None:
        """A marker has been appended; None if it ended nothing."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id)
        first_offset = producer.current_txn_first_offset
        producer.begin_epoch(producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.current_txn_first_offset = None
        producer.last_timestamp = timestamp
        if first_offset is None:
            return None
        del self._open[first_offset]
        completed = CompletedTransaction(producer_id, first_offset, offset, is_aborted)
        self.unreplicated.append(completed)
        return completed

    def last_stable_offset(self, completed: CompletedTransaction) -> Offset:
        """Right after its marker: the first transaction still open, or the offset after it."""
        return next(iter(self._open), completed.last_offset + 1)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Of the first transaction that is open, or whose marker may still be lost."""
        first = next(iter(self._open), None)
        if self.unreplicated:
            least = min(completed.first_offset for completed in self.unreplicated)
            return least if first is None else min(first, least)
        return first

    def high_watermark_advanced(self, high_watermark: Offset) -> None:
        """Markers below it cannot be lost."""
        if self.unreplicated:
            self.unreplicated = [c for c in self.unreplicated if c.last_offset >= high_watermark]

    def expire(self, wall_ms: int, expiration_ms: int) -> None:
        """Forget those that have been idle for long, but no open transaction."""
        for producer in list(self._producers.values()):
            if is_expired(producer, wall_ms, expiration_ms):
                del self._producers[producer.producer_id]


def is_expired(producer: Producer, wall_ms: int, expiration_ms: int) -> bool:
    """Idle for long, without open transaction."""
    is_idle = producer.current_txn_first_offset is None
    return is_idle and wall_ms - producer.last_timestamp >= expiration_ms


def sequence_after(sequence: int, increment: int) -> int:
    """Sequences wrap to 0 after 2^31 - 1."""
    return (sequence + increment) & SEQUENCE_MAX
