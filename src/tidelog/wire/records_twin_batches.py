"""The twin's batches: what their headers say, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.wire.batch_header import CRC_START, HEADER, LENGTH_END, MAGIC
from tidelog.wire.records_batches_types import Batch, BatchRun, IndexEntry, RunState

if TYPE_CHECKING:
    from typing_extensions import Buffer

OFFSET_MAX = (1 << 63) - 1


def crc32c(data: Buffer, value: int = 0, /) -> int:
    """CRC-32C of data, going on from value."""
    # The package takes some 80 ms to import: only whom it serves shall wait for it.
    from crc32c import crc32c as extend

    return extend(data, value)


class BatchHead(NamedTuple):
    """A whole batch, and what of its header is needed here."""

    batch: memoryview
    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    record_count: int

    def crc_is_right(self) -> bool:
        return crc32c(self.batch[CRC_START:]) == self.crc


def read_head(view: memoryview, position: int, next_offset: int) -> BatchHead | None:
    """None unless a whole batch of magic 2 lies there, whose offsets rise."""
    left = len(view) - position
    if position < 0 or left < HEADER.size:
        return None
    base_offset, length, leader_epoch, magic, crc, attributes, delta, *rest = HEADER.unpack_from(
        view, position
    )
    if magic != MAGIC or not HEADER.size - LENGTH_END <= length <= left - LENGTH_END:
        return None
    if base_offset < next_offset or delta < 0 or base_offset > OFFSET_MAX - delta - 1:
        return None
    base_timestamp, max_timestamp, _, _, _, count = rest
    batch = view[position : position + LENGTH_END + length]
    return BatchHead(
        batch,
        base_offset,
        base_offset + delta + 1,
        leader_epoch,
        crc,
        attributes,
        base_timestamp,
        max_timestamp,
        count,
    )


def skip_batches(
    batches: Buffer, position: int, next_offset: int, attributes: int, check_crc: bool, /
) -> tuple[int, int]:
    """Pass over whole batches, up to one that needs a closer look."""
    view = memoryview(batches)
    while (head := read_head(view, position, next_offset)) is not None:
        if head.attributes & attributes or (check_crc and not head.crc_is_right()):
            break
        position += len(head.batch)
        next_offset = head.next_offset
    return position, next_offset


def read_batches(
    kind: type[Batch],
    batches: memoryview,
    position: int,
    next_offset: int,
    check_crc: bool,
    count_max: int,
    /,
) -> list[Batch]:
    """Sound batches, one after the other."""
    found: list[Batch] = []
    while len(found) < count_max:
        head = read_head(batches, position, next_offset)
        if head is None or (check_crc and not head.crc_is_right()):
            break
        found.append(
            tuple.__new__(kind, (batches, position, *HEADER.unpack_from(batches, position)))
        )
        position += len(head.batch)
        next_offset = head.next_offset
    return found


def sum_up_batches(
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
    """Sound batches, and what is to be known of them together."""
    unindexed, greatest, reached, epoch = state
    entries: list[IndexEntry] = []
    epochs: list[tuple[int, int]] = []
    places: list[tuple[int, int]] = []
    while (head := read_head(batches, position, next_offset)) is not None:
        last_offset = head.next_offset - 1
        if head.attributes & attributes or last_offset > last_offset_max:
            break
        if not head.crc_is_right():
            break
        if head.leader_epoch > epoch:
            epoch = head.leader_epoch
            epochs.append((epoch, head.base_offset))
        if head.max_timestamp > greatest:
            greatest, reached = head.max_timestamp, last_offset
        if unindexed > interval_bytes:
            entries.append(IndexEntry(last_offset, position, greatest, reached))
            unindexed = 0
        unindexed += len(head.batch)
        places.append((last_offset, position))
        position += len(head.batch)
        next_offset = head.next_offset
    recent_max, batches_max = kept_max
    kept = last_of_each(kind, batches, [at for _, at in places], batches_max)
    after = RunState(unindexed, greatest, reached, epoch)
    recent = places[len(places) - min(recent_max, len(places)) :]
    return BatchRun(position, next_offset, after, entries, epochs, recent), kept


def last_of_each(
    kind: type[Batch], batches: memoryview, positions: list[int], batches_max: int
) -> list[Batch]:
    """Of every producer, those that can still matter."""
    found: list[Batch] = []
    seen: dict[int, tuple[int, int]] = {}
    """Producer -> how many were found, and their epoch."""
    for position in reversed(positions):
        header = HEADER.unpack_from(batches, position)
        producer_id, producer_epoch = header[9:11]
        count, epoch = seen.get(producer_id, (0, producer_epoch))
        if producer_id < 0 or count >= batches_max:
            continue
        seen[producer_id] = (count + 1 if producer_epoch == epoch else batches_max), epoch
        found.append(tuple.__new__(kind, (batches, position, *header)))
    return found[::-1]
