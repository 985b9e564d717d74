"""A snapshot becomes an image, in pieces: it may have a record for each of very many partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tidelog.metadata.batches import each_metadata
from tidelog.metadata.delta import replay
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import SnapshotId
from tidelog.slices import Slices
from tidelog.wire.batch import LENGTH_END, BatchWalk, RecordBatch
from tidelog.wire.decoder import DecodeError
from tidelog.wire.messages.control_records import SnapshotFooterRecord

RECORD_COST = 50
"""Microseconds (slices.py) to decode a record and to replay it."""

Read = Callable[[int, int], bytes]
"""From a position so many bytes, fewer only at the end: a file's read."""


def load_image(read: Read, snapshot_id: SnapshotId) -> Slices[MetadataImage]:
    """The image that a snapshot's file holds. DecodeError where it is damaged or was not written
    to its end."""
    image, offset = MetadataImage.empty(), snapshot_id.end_offset - 1
    is_whole = False
    for batch in _batches(read):
        for logged in each_metadata(batch):
            is_whole = isinstance(logged.record, SnapshotFooterRecord)
            if not batch.is_control:
                image = replay(image, logged.record, offset, snapshot_id.epoch)
            yield RECORD_COST
    if not is_whole:
        raise DecodeError("the snapshot has no footer: it was not written to its end")
    return replace(image, offset=offset, epoch=snapshot_id.epoch)


def _batches(read: Read) -> Iterator[RecordBatch]:
    position = 0
    while head := read(position, LENGTH_END):
        size = LENGTH_END + int.from_bytes(head[8:], "big")
        if size <= LENGTH_END:
            raise DecodeError(f"no whole batch at position {position}")
        walk = BatchWalk(read(position, size))
        yield from walk
        if walk.flaw is not None:
            raise DecodeError(f"no whole batch at position {position}: {walk.flaw.kind.name}")
        position += size
