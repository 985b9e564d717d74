"""The twin's batches: what their headers say, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.wire.batch_header import CRC_START, HEADER, LENGTH_END, MAGIC
from tidelog.wire.records_types import Batch

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
    base_offset, length, _, magic, crc, attributes, delta, *rest = HEADER.unpack_from(
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
