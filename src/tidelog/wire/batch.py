"""A record batch, magic 2: its header as a view over bytes, which stay where they are.

Batches go from the wire to the disk and back as bytes. What a broker needs of one it reads from
the 61 bytes of the header; what it writes, it writes into them in place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple

from tidelog.types import Offset
from tidelog.wire import records
from tidelog.wire.batch_header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
)
from tidelog.wire.compression import DECOMPRESSED_BYTES_MAX, Compression, decompress

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "COMPRESSION_MASK",
    "CONTROL",
    "CRC_START",
    "DELETE_HORIZON",
    "HEADER",
    "LENGTH_END",
    "LENGTH_MIN",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MAGIC_END",
    "NO_PRODUCER_ID",
    "NO_TIMESTAMP",
    "OLD_LENGTH_MIN",
    "TRANSACTIONAL",
    "BatchFlaw",
    "BatchWalk",
    "FlawKind",
    "RecordBatch",
    "TimestampType",
    "assign_offset",
    "read_batch",
    "renew_crc",
    "rewrite_timestamps",
]

LENGTH_MIN = HEADER.size - LENGTH_END
OLD_LENGTH_MIN = 14
"""The least of any magic: below it nothing else can be read."""
MAGIC_END = 17
READ_AHEAD = 64
"""Batches that are checked before the first of them is looked at."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1

_LENGTH = struct.Struct(">i")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")


class TimestampType(IntEnum):
    """Bit 3 of the attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordBatch(NamedTuple):
    """A batch that lies in buffer at position, whole."""

    buffer: memoryview
    position: int
    base_offset: Offset
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    """Compaction keeps it, so it may exceed record_count - 1."""
    base_timestamp: int
    """Or the delete horizon, if that bit is set."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Of header and records together."""
        return self.batch_length + LENGTH_END

    @property
    def end_position(self) -> int:
        """Where the next batch starts."""
        return self.position + LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> Offset:
        """Of its last record, were none compacted away."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        """The log end offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number in the attributes; 5 to 7 name no codec."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether max_timestamp is the time of every record."""
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction, or its marker."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Written by brokers for each other; clients skip it."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop this batch's tombstones or marker."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        """Idempotent or transactional."""
        return self.producer_id >= 0

    def to_view(self) -> memoryview:
        """The whole batch."""
        return self.buffer[self.position : self.end_position]

    def payload(self) -> memoryview:
        """The records as they are stored, compressed or not."""
        return self.buffer[self.position + HEADER.size : self.end_position]

    def crc_is_right(self) -> bool:
        """Whether the bytes are those that were sent."""
        covered = self.buffer[self.position + CRC_START : self.end_position]
        return records.crc32c(covered) == self.crc

    def decompressed(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
        """The records. Raises UndecodableData or DecompressedTooLarge; ValueError if the
        attributes name no codec."""
        codec = self.attributes & COMPRESSION_MASK
        if codec == 0:  # the hot path
            return self.payload()
        return decompress(Compression(codec), self.payload(), bytes_max=bytes_max)


class FlawKind(Enum):
    """Why there is no sound batch at a position."""

    INCOMPLETE = "the bytes end inside a batch"
    BAD_LENGTH = "the length is too small for a batch"
    UNKNOWN_MAGIC = "the magic is not one of Kafka's"
    OLD_MAGIC = "the magic is 0 or 1, which brokers no longer store"
    BAD_CRC = "the checksum is wrong"
    BAD_OFFSETS = "the offsets do not rise"


class BatchFlaw(NamedTuple):
    """What is wrong at a position. INCOMPLETE is the usual end of a fetched or torn buffer."""

    kind: FlawKind
    position: int


def read_batch(buffer: memoryview, position: int, end: int) -> RecordBatch | BatchFlaw:
    """The batch at position, whose bytes end before end; its checksum is not looked at."""
    size = end - position
    if size < LENGTH_END:
        return BatchFlaw(FlawKind.INCOMPLETE, position)
    (length,) = _LENGTH.unpack_from(buffer, position + 8)
    if length < OLD_LENGTH_MIN:
        return BatchFlaw(FlawKind.BAD_LENGTH, position)
    if size < MAGIC_END:
        return BatchFlaw(FlawKind.INCOMPLETE, position)
    magic = buffer[position + MAGIC_END - 1]
    if magic != MAGIC:
        kind = FlawKind.OLD_MAGIC if magic < MAGIC else FlawKind.UNKNOWN_MAGIC
        return BatchFlaw(kind, position)
    if size - LENGTH_END < length:
        return BatchFlaw(FlawKind.INCOMPLETE, position)
    if length < LENGTH_MIN:
        return BatchFlaw(FlawKind.BAD_LENGTH, position)
    return RecordBatch(buffer, position, *HEADER.unpack_from(buffer, position))


class BatchWalk:
    """Iterates over the batches of a buffer and checks what a follower and recovery check:
    length, checksum, rising offsets (gaps are fine). It stops at the first flaw and raises
    nothing: afterwards `position` is the end of what is sound and `flaw` says what came then.
    """

    def __init__(
        self,
        buffer: Buffer,
        position: int = 0,
        *,
        next_offset_min: Offset = 0,
        check_crc: bool = True,
    ) -> None:
        self.position = position
        self.flaw: BatchFlaw | None = None
        self.next_offset = next_offset_min
        """What the next batch's base offset must reach."""
        self._buffer = memoryview(buffer)
        self._check_crc = check_crc

    def __iter__(self) -> Iterator[RecordBatch]:
        end = len(self._buffer)
        while self.position < end and self.flaw is None:
            sound = records.read_batches(
                RecordBatch,
                self._buffer,
                self.position,
                self.next_offset,
                self._check_crc,
                READ_AHEAD,
            )
            for batch in sound:
                self.position = position = batch.end_position
                self.next_offset = batch.next_offset
                yield batch
                if self.position != position:
                    break  # somebody has gone on by himself
            else:
                if len(sound) < READ_AHEAD:
                    yield from self._look_closely(end)

    def _look_closely(self, end: int) -> Iterator[RecordBatch]:
        """At what is no usual batch: mostly the end, or a flaw."""
        if self.position >= end:
            return
        batch = read_batch(self._buffer, self.position, end)
        kind = self._check(batch) if isinstance(batch, RecordBatch) else batch.kind
        if kind is not None:
            self.flaw = BatchFlaw(kind, self.position)
        elif isinstance(batch, RecordBatch):
            self.position = batch.end_position
            self.next_offset = batch.next_offset
            yield batch

    def _check(self, batch: RecordBatch) -> FlawKind | None:
        if self._check_crc and not batch.crc_is_right():
            return FlawKind.BAD_CRC
        if batch.base_offset < self.next_offset or batch.last_offset_delta < 0:
            return FlawKind.BAD_OFFSETS
        return None


def assign_offset(
    buffer: bytearray | memoryview, position: int, base_offset: Offset, leader_epoch: int
) -> None:
    """Give the batch at position its place in the log; the checksum does not cover it."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + 12, leader_epoch)


def rewrite_timestamps(
    buffer: bytearray | memoryview, position: int, attributes: int, max_timestamp: int
) -> None:
    """Replace attributes and max timestamp of the batch at position, and its checksum."""
    _ATTRIBUTES.pack_into(buffer, position + 21, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, position + 35, max_timestamp)
    renew_crc(buffer, position)


def renew_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Compute the checksum of the batch at position and write it."""
    (length,) = _LENGTH.unpack_from(buffer, position + 8)
    end = position + LENGTH_END + length
    assert end <= len(buffer)
    crc = records.crc32c(memoryview(buffer)[position + CRC_START : end])
    _CRC.pack_into(buffer, position + 17, crc)
