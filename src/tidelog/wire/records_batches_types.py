"""What the compiled module and its twin say of many batches at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer

Batch = TypeVar("Batch", bound=tuple[Any, ...])


class RunState(NamedTuple):
    """What the batches of a segment have come to so far, for its indexes and epochs."""

    unindexed_bytes: int
    """Since the last index entry."""
    max_timestamp: int
    max_timestamp_offset: int
    """The last offset of the batch that first reached it."""
    leader_epoch: int
    """The latest."""


class IndexEntry(NamedTuple):
    """A batch that the indexes name, and the greatest timestamp up to it."""

    last_offset: int
    position: int
    max_timestamp: int
    max_timestamp_offset: int


class BatchRun(NamedTuple):
    """Sound batches, one after the other, summed up. Positions are those in the buffer."""

    end_position: int
    next_offset: int
    state: RunState
    entries: list[IndexEntry]
    epochs: list[tuple[int, int]]
    """Each leader epoch that began, and where."""
    recent: list[tuple[int, int]]
    """Last offset and position of the last ones."""


class BatchesModule(Protocol):
    """The part of `RecordsModule` that looks at headers, and at records as bytes only."""

    def skip_batches(
        self,
        batches: Buffer,
        position: int,
        next_offset: int,
        attributes: int,
        check_crc: bool,
        /,
    ) -> tuple[int, int]:
        """Pass over whole batches by their headers, but none with one of these attributes.
        Returns where it stopped, and which offset comes next. What lies there has to be looked
        at more closely, and may be the end."""

    def read_batches(
        self,
        kind: type[Batch],
        batches: memoryview,
        position: int,
        next_offset: int,
        check_crc: bool,
        count_max: int,
        /,
    ) -> list[Batch]:
        """Sound batches as RecordBatch, which is the kind, up to so many; what follows them has
        to be looked at more closely, and may be the end."""

    def sum_up_batches(
        self,
        kind: type[Batch],
        batches: memoryview,
        position: int,
        next_offset: int,
        last_offset_max: int,
        attributes: int,
        interval_bytes: int,
        state: RunState,
        kept_max: tuple[int, int],
        /,
    ) -> tuple[BatchRun, list[Batch]]:
        """Sound batches without these attributes, up to that offset: an index entry when more
        than interval_bytes have passed, so many recent ones, and so many last ones of every
        producer that have its epoch, in order, and the one before if that has another."""
