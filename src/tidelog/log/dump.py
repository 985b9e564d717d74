"""What the files of a log say, item by item, in the words of Apache Kafka's DumpLogSegments; and
what is wrong with them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.env import Disk
from tidelog.log.config import LogConfig
from tidelog.log.index import OFFSET_ENTRY, TIME_ENTRY
from tidelog.log.names import (
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    OffsetFile,
    parse_file_name,
)
from tidelog.log.producer_snapshot import read_snapshot
from tidelog.log.results import DamagedSegment
from tidelog.log.segment import Segment
from tidelog.log.txn_index import read_entries
from tidelog.types import Offset
from tidelog.wire.batch import RecordBatch, TimestampType
from tidelog.wire.batch_reader import Record, read_records
from tidelog.wire.compression import Compression, DecompressedTooLarge, UndecodableData
from tidelog.wire.decoder import DecodeError
from tidelog.wire.records_types import CorruptRecords

KIND_NAMES = {LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT}
MARKERS = {0: "ABORT", 1: "COMMIT"}
CONTROL_TYPES = {
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")

Value = int | str | bool | list[str] | None
Decoder = Callable[[bytes | None, bytes | None], tuple[str, str]]
"""A record's key and value to what is shown of them. Raises DecodeError."""


class Item(NamedTuple):
    """A batch, a record or an entry."""

    kind: str
    fields: dict[str, Value]


class Problem(NamedTuple):
    """Something that should not be so."""

    text: str


class Wanted(NamedTuple):
    """What is shown of a log."""

    records: bool = False
    contents: bool = False
    """Of records: keys and values."""
    metadata: bool = True
    """Of records: all but these."""
    decoder: Decoder | None = None
    bytes_max: int | None = None
    """Only batches that end within so much of the file."""


def dump_file(disk: Disk, path: str, wanted: Wanted) -> Iterator[Item | Problem]:
    """A file's kind is known by its name. Raises ValueError if it is none of a log's."""
    file = _parsed(path)
    if file.kind == LOG:
        directory = path.rpartition("/")[0] or "."
        return dump_log(_Opened(disk, directory, path, file.offset), wanted)
    content = disk.read_file(path) or b""
    if file.kind == OFFSET_INDEX:
        return _dump_offset_index(disk, path, content, file.offset)
    if file.kind == TIME_INDEX:
        return _dump_time_index(disk, path, content, file.offset)
    if file.kind == TXN_INDEX:
        return _dump_txn_index(path, content, file.offset)
    return _dump_snapshot(path, content)


def _parsed(path: str) -> OffsetFile:
    file = parse_file_name(path.rpartition("/")[2])
    if file is None:
        raise ValueError(f"{path} is no file of a log: want 20 digits and one of {KIND_NAMES}")
    return file


def check_index(disk: Disk, path: str) -> Problem | None:
    """What Apache Kafka looks at when it starts, to write an index anew that does not pass."""
    file = _parsed(path)
    base_offset = file.offset
    content = disk.read_file(path) or b""
    entry = TIME_ENTRY if file.kind == TIME_INDEX else OFFSET_ENTRY
    if len(content) % entry.size:
        return _no_whole_number(path, content)
    if not content:
        return None
    first, last = entry.unpack_from(content), entry.unpack_from(content, len(content) - entry.size)
    offset = base_offset + (last[1] if entry is TIME_ENTRY else last[0])
    if offset < base_offset:
        return Problem(f"The last offset of {path} is {offset}, less than the base offset")
    if entry is TIME_ENTRY and last[0] < first[0]:
        why = f"is {last[0]}, less than the first, {first[0]}"
        return Problem(f"The last timestamp of {path} {why}")
    return None


def _no_whole_number(path: str, content: bytes) -> Problem:
    return Problem(f"{path} has {len(content)} bytes, no whole number of entries")


class _Opened(Segment):
    """A segment by the path of its file, whatever suffix that has."""

    __slots__ = ("_path",)

    def __init__(self, disk: Disk, directory: str, path: str, base_offset: Offset) -> None:
        self._path = path
        super().__init__(disk, directory, base_offset, LogConfig())

    def path(self, kind: str) -> str:
        return self._path if kind == LOG else super().path(kind)


def dump_log(segment: Segment, wanted: Wanted) -> Iterator[Item | Problem]:
    """Every batch, its records if they are wanted, with keys and values if these are."""
    bytes_max = segment.size if wanted.bytes_max is None else wanted.bytes_max
    path = segment.path(LOG)
    last_offset = -1
    try:
        for position, header in segment.headers():
            if position + header.size > bytes_max:
                return
            batch = segment.batch_at(position)
            item = _batch_item(batch, position)
            yield item
            if not item.fields["isvalid"]:
                yield Problem(
                    f"The checksum of the batch at position {position} of {path} is wrong"
                )
            if not wanted.records:
                continue
            try:
                found = read_records(batch)
            except (CorruptRecords, UndecodableData, DecompressedTooLarge, ValueError) as error:
                yield Problem(f"The records at position {position} of {path} are bad: {error}")
                continue
            for record in found:
                if last_offset >= 0 and record.offset != last_offset + 1:
                    where = f"{last_offset} is followed by {record.offset}"
                    yield Problem(f"Non-consecutive offsets in {path}: {where}")
                last_offset = record.offset
                item = _record_item(batch, record, header.base_sequence, wanted)
                if wanted.decoder is not None and not batch.is_control:
                    try:
                        item.fields["key"], item.fields["payload"] = wanted.decoder(
                            record.key, record.value
                        )
                    except DecodeError as error:
                        yield Problem(f"The record at offset {record.offset} of {path}: {error}")
                yield item
    except DamagedSegment as damage:
        rest = segment.size - damage.position
        yield Problem(f"Found {rest} invalid bytes at the end of {path} ({damage.why})")


def _batch_item(batch: RecordBatch, position: int) -> Item:
    horizon = batch.delete_horizon_ms
    sequence = batch.base_sequence
    codec = batch.codec
    return Item(
        "batch",
        {
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": batch.record_count,
            "baseSequence": sequence,
            "lastSequence": sequence_of(sequence, batch.last_offset_delta),
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "partitionLeaderEpoch": batch.partition_leader_epoch,
            "isTransactional": batch.is_transactional,
            "isControl": batch.is_control,
            "deleteHorizonMs": horizon,
            "position": position,
            timestamp_name(batch): batch.max_timestamp,
            "size": batch.size,
            "magic": batch.magic,
            "compresscodec": Compression(codec).name.lower() if codec < 5 else str(codec),
            "crc": batch.crc,
            "isvalid": batch.crc_is_right(),
        },
    )


def timestamp_name(batch: RecordBatch) -> str:
    """What kind of time it is."""
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return "LogAppendTime" if appended else "CreateTime"


def sequence_of(base_sequence: int, delta: int) -> int:
    """Of a record; -1 without a producer."""
    return -1 if base_sequence < 0 else (base_sequence + delta) & 0x7FFFFFFF


def _record_item(batch: RecordBatch, record: Record, base_sequence: int, wanted: Wanted) -> Item:
    fields: dict[str, Value] = {}
    if wanted.metadata:
        fields |= {
            "offset": record.offset,
            timestamp_name(batch): record.timestamp,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
            "sequence": sequence_of(base_sequence, record.offset - batch.base_offset),
            "headerKeys": [key.decode(errors="replace") for key, _ in record.headers],
        }
        if batch.is_control:
            fields |= _control_fields(record)
    if wanted.contents and not batch.is_control:
        if record.key is not None:
            fields["key"] = record.key.decode(errors="replace")
        if record.value is not None:
            fields["payload"] = record.value.decode(errors="replace")
    return Item("record", fields)


def _control_fields(record: Record) -> dict[str, Value]:
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        return {"controlType": "UNKNOWN"}
    _, kind = _MARKER_KEY.unpack_from(record.key)
    if kind in MARKERS and record.value is not None:
        _, epoch = _MARKER_VALUE.unpack_from(record.value)
        return {"endTxnMarker": MARKERS[kind], "coordinatorEpoch": epoch}
    return {"controlType": f"{CONTROL_TYPES.get(kind, 'UNKNOWN')}({kind})"}


def _last_offsets(disk: Disk, path: str, base_offset: Offset) -> dict[int, RecordBatch] | None:
    """Position -> header of every batch in the log beside an index."""
    directory = path.rpartition("/")[0] or "."
    if disk.size(f"{directory}/{base_offset:020d}{LOG}") is None:
        return None
    return dict(Segment(disk, directory, base_offset, LogConfig()).headers())


def _dump_offset_index(
    disk: Disk, path: str, content: bytes, base_offset: Offset
) -> Iterator[Item | Problem]:
    batches = _last_offsets(disk, path, base_offset)
    if len(content) % OFFSET_ENTRY.size:
        yield _no_whole_number(path, content)
    whole = content[: len(content) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]
    last = -1
    for relative, position in OFFSET_ENTRY.iter_unpack(whole):
        offset = base_offset + relative
        if relative <= last:
            yield Problem(f"The entries of {path} do not rise at offset {offset}")
        last = relative
        yield Item("offset index entry", {"offset": offset, "position": position})
        if batches is not None:
            batch = batches.get(position)
            if batch is None:
                yield Problem(f"Mismatches in {path}: no batch begins at position {position}")
            elif batch.last_offset != offset:
                where = f"Index offset: {offset}, log offset: {batch.last_offset}"
                yield Problem(f"Mismatches in {path}: {where}")


def _dump_time_index(
    disk: Disk, path: str, content: bytes, base_offset: Offset
) -> Iterator[Item | Problem]:
    batches = _last_offsets(disk, path, base_offset)
    times = {b.last_offset: b.max_timestamp for b in (batches or {}).values()}
    if len(content) % TIME_ENTRY.size:
        yield _no_whole_number(path, content)
    whole = content[: len(content) // TIME_ENTRY.size * TIME_ENTRY.size]
    last = -1
    for timestamp, relative in TIME_ENTRY.iter_unpack(whole):
        offset = base_offset + relative
        yield Item("time index entry", {"timestamp": timestamp, "offset": offset})
        if timestamp <= last:
            yield Problem(f"Found out of order timestamp in {path}: {timestamp} after {last}")
        last = timestamp
        if batches is None:
            continue
        if offset not in times:
            yield Problem(f"The indexed offset {offset} of {path} is not found in the log")
        elif times[offset] != timestamp:
            where = f"Index timestamp: {timestamp}, log timestamp: {times[offset]}"
            yield Problem(f"Found timestamp mismatch in {path}: {where}")


def _dump_txn_index(path: str, content: bytes, base_offset: Offset) -> Iterator[Item | Problem]:
    entries = read_entries(content, base_offset)
    if entries is None:
        yield Problem(f"{path} is damaged")
        return
    for entry in entries:
        yield Item(
            "aborted transaction",
            {
                "version": 0,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            },
        )


def _dump_snapshot(path: str, content: bytes) -> Iterator[Item | Problem]:
    producers = read_snapshot(content)
    if producers is None:
        yield Problem(f"{path} is damaged: its checksum is wrong")
        return
    for producer in producers:
        fields: dict[str, Value] = {
            "producerId": producer.producer_id,
            "producerEpoch": producer.producer_epoch,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnFirstOffset": producer.current_txn_first_offset,
            "lastTimestamp": producer.last_timestamp,
        }
        if producer.batches:
            last = producer.batches[-1]
            fields |= {
                "firstSequence": last.base_sequence,
                "lastSequence": last.last_sequence,
                "lastOffset": last.last_offset,
                "offsetDelta": last.offset_delta,
                "timestamp": last.timestamp,
            }
        yield Item("producer", fields)
