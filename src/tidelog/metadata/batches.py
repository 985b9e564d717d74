"""Metadata records in batches: data and control batches of the log and of snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from tidelog.metadata.frame import METADATA_VERSION_LATEST, decode_record, encode_record
from tidelog.types import Offset
from tidelog.wire.batch import CONTROL, BatchWalk, RecordBatch
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import each_record
from tidelog.wire.codec import decode, encode
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


class ControlType(IntEnum):
    """Types of control records; 0 and 1 are markers of transactions, never in this log."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


CONTROL_MESSAGES: dict[int, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
CONTROL_TYPES = {cls: number for number, cls in CONTROL_MESSAGES.items()}


class LoggedRecord(NamedTuple):
    """A record and its place; a control record's message stands for its value."""

    offset: Offset
    epoch: int
    timestamp: int
    record: Message


def read_metadata(batch: RecordBatch) -> list[LoggedRecord]:
    """What a batch of the metadata log holds. DecodeError where it cannot be a metadata record."""
    return list(each_metadata(batch))


def each_metadata(batch: RecordBatch) -> Iterator[LoggedRecord]:
    """The same, one after the other: a large batch takes more than a step."""
    for record in each_record(batch):
        if record.value is None:
            raise DecodeError(f"the metadata record at offset {record.offset} has no value")
        if batch.is_control:
            message = decode_control(record.key, record.value)
        else:
            message = decode_record(record.value)
        yield LoggedRecord(record.offset, batch.partition_leader_epoch, record.timestamp, message)


def walk_metadata(content: Buffer) -> Iterator[LoggedRecord]:
    """All records of a segment or a snapshot; DecodeError at the first batch that is damaged."""
    walk = BatchWalk(content)
    for batch in walk:
        yield from read_metadata(batch)
    if walk.flaw is not None:
        raise DecodeError(f"no whole batch at position {walk.flaw.position}: {walk.flaw.kind.name}")


def decode_control(key: bytes | None, value: bytes) -> Message:
    """A control record's message, by the type in its key. Its value opens with its version."""
    if key is None or len(key) < 4 or len(value) < 2:
        raise DecodeError("a control record without type or version")
    number = int.from_bytes(key[2:4], "big", signed=True)
    cls = CONTROL_MESSAGES.get(number)
    if cls is None:
        raise DecodeError(f"control record type {number} is unknown")
    version = int.from_bytes(value[:2], "big", signed=True)
    return decode(cls, min(max(version, 0), cls.VERSIONS[1]), value)


def encode_control(message: Message) -> tuple[bytes, bytes]:
    """Key and value of a control record, in version 0."""
    number = CONTROL_TYPES[type(message)]
    return b"\0\0" + number.to_bytes(2, "big"), encode(message, 0)


def data_batch(
    records: Sequence[Message],
    *,
    base_offset: Offset,
    leader_epoch: int,
    timestamp_ms: int,
    metadata_version: int = METADATA_VERSION_LATEST,
) -> bytearray:
    """One batch of metadata records: atomic, as all that lands in one batch."""
    builder = BatchBuilder()
    for record in records:
        builder.append(None, encode_record(record, metadata_version), timestamp=timestamp_ms)
    return builder.build(base_offset=base_offset, partition_leader_epoch=leader_epoch)


def control_batch(
    messages: Sequence[Message], *, base_offset: Offset, leader_epoch: int, timestamp_ms: int
) -> bytearray:
    """One batch of control records."""
    builder = BatchBuilder()
    for message in messages:
        key, value = encode_control(message)
        builder.append(key, value, timestamp=timestamp_ms)
    return builder.build(
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
        attributes=CONTROL,
    )
