"""Rebuilds the producers' state: from the newest good snapshot and the batches after it.

A snapshot holds one batch a producer, memory holds five. The other four are looked for in the log
before the snapshot, so that a retried batch is known as one after a restart as well. Retries are
recent, so the search is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tidelog.env import Disk, DiskFull, File
from tidelog.log.names import SNAPSHOT, file_name, parse_file_name
from tidelog.log.producer_snapshot import read_snapshot, write_snapshot
from tidelog.log.producer_state import (
    BATCHES_MAX,
    KnownBatch,
    Producer,
    ProducerStates,
    is_expired,
    sequence_after,
)
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.log.txn_index import AbortedTransaction
from tidelog.types import Offset
from tidelog.wire.batch import RecordBatch
from tidelog.wire.batch_reader import read_records
from tidelog.wire.batch_validation import INT64_MAX

LOOK_BACK_BYTES_MAX = 64 << 20
LOOK_BACK_BATCHES_MAX = 50_000
"""How far before a snapshot earlier batches are looked for."""
WINDOW_BYTES = 256 << 10
"""The log is walked backwards in windows of about this size, and forwards in each."""

ABORT, COMMIT = 0, 1
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")


def replay_batch(batch: RecordBatch, producers: ProducerStates, segment: Segment | None) -> None:
    """A batch with a producer id has been appended or met; segment gets its abort, if it is one."""
    if not batch.is_control:
        producers.update(batch, batch.base_offset, batch.max_timestamp)
        return
    if batch.record_count == 0:
        return  # compaction left the offsets only
    record = read_records(batch)[0]
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        return
    _, kind = _MARKER_KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT) or record.value is None:
        return
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    completed = producers.end_transaction(
        batch.producer_id,
        batch.producer_epoch,
        offset=batch.last_offset,
        timestamp=record.timestamp,
        coordinator_epoch=coordinator_epoch,
        is_aborted=kind == ABORT,
    )
    if completed is not None and completed.is_aborted and segment is not None:
        stable = producers.last_stable_offset(completed)
        segment.add_aborted(AbortedTransaction(*completed[:3], stable))


def snapshot_offsets(disk: Disk, directory: str) -> list[Offset]:
    """Of the snapshot files, rising."""
    found = map(parse_file_name, disk.names(directory))
    return [name.offset for name in found if name and name.kind == SNAPSHOT and not name.state]


def store_snapshot(disk: Disk, directory: str, offset: Offset, producers: ProducerStates) -> File:
    """The producers' state below an offset; still to be flushed. DiskFull leaves no file."""
    path = f"{directory}/{file_name(offset, SNAPSHOT)}"
    file = disk.open(path)
    try:
        file.truncate(0)
        file.append(write_snapshot(producers))
    except DiskFull:
        disk.remove(path)
        raise
    return file


def delete_snapshots(disk: Disk, directory: str, *, above: Offset) -> None:
    """Of what has been cut off."""
    for offset in snapshot_offsets(disk, directory):
        if offset > above:
            disk.remove(f"{directory}/{file_name(offset, SNAPSHOT)}")


def load_snapshot(
    disk: Disk,
    directory: str,
    *,
    above: Offset,
    up_to: Offset,
    wall_ms: int = 0,
    expiration_ms: int = INT64_MAX,
) -> tuple[ProducerStates, Offset]:
    """The newest good snapshot of the range, and its offset; else nothing, and the offset above
    which to replay. Damaged ones are removed."""
    producers = ProducerStates()
    for offset in reversed(snapshot_offsets(disk, directory)):
        if not above < offset <= up_to:
            continue
        path = f"{directory}/{file_name(offset, SNAPSHOT)}"
        restored = read_snapshot(disk.read_file(path) or b"")
        if restored is None:
            disk.remove(path)
            continue
        for producer in restored:
            if not is_expired(producer, wall_ms, expiration_ms):
                producers.restore(producer)
        return producers, offset
    return producers, above


def replay(producers: ProducerStates, segments: Segments, start: Offset, end: Offset) -> None:
    """All batches of [start, end)."""
    for segment in segments.from_offset(start):
        if segment.base_offset >= end or start >= end:
            return  # what lies there has perhaps not been checked
        for position, header in segment.headers(segment.locate(start)):
            if header.base_offset >= end:
                return
            if header.producer_id >= 0:
                batch = segment.batch_at(position) if header.is_control else header
                replay_batch(batch, producers, None)


def recall_batches(producers: ProducerStates, segments: Segments, before: Offset) -> None:
    """Fill up each producer's last batches with those that lie before a snapshot's offset."""
    wanted = {p.producer_id: p for p in producers.active() if _is_incomplete(p)}
    found: dict[int, list[KnownBatch]] = {producer_id: [] for producer_id in wanted}
    walked_bytes = walked_batches = 0
    for window in _windows_backwards(segments, before) if wanted else ():
        for producer_id, batch in reversed(window):
            producer = wanted.get(producer_id)
            if producer is None or batch.producer_epoch != producer.producer_epoch:
                continue
            known = _known(batch)
            earlier = found[producer_id]
            oldest = earlier[-1] if earlier else producer.batches[0]
            if known.last_offset >= oldest.base_offset:
                continue
            if sequence_after(known.last_sequence, 1) == oldest.base_sequence:
                earlier.append(known)
            count = len(producer.batches) + len(earlier)
            if earlier[-1:] != [known] or known.base_sequence == 0 or count == BATCHES_MAX:
                del wanted[producer_id]
        walked_batches += len(window)
        walked_bytes += sum(batch.size for _, batch in window)
        if not wanted or walked_bytes > LOOK_BACK_BYTES_MAX:
            break
        if walked_batches > LOOK_BACK_BATCHES_MAX:
            break
    for producer_id, earlier in found.items():
        remembered = producers.get(producer_id)
        assert remembered is not None
        remembered.batches[:0] = reversed(earlier)


def _is_incomplete(producer: Producer) -> bool:
    batches = producer.batches
    return 0 < len(batches) < BATCHES_MAX and batches[0].base_sequence != 0


def _known(batch: RecordBatch) -> KnownBatch:
    last_sequence = sequence_after(batch.base_sequence, batch.last_offset_delta)
    return KnownBatch(
        batch.base_sequence,
        last_sequence,
        batch.last_offset,
        batch.last_offset_delta,
        batch.max_timestamp,
    )


def _windows_backwards(
    segments: Segments, before: Offset
) -> Iterator[list[tuple[int, RecordBatch]]]:
    """Data batches of producers, as lists that each rise, the last ones first."""
    for segment in reversed(list(segments)):
        if segment.base_offset >= before:
            continue
        starts, known = [0], segment.offset_index
        for index, position in enumerate(known.positions):
            if position >= starts[-1] + WINDOW_BYTES and known.is_right(index, segment):
                starts.append(position)
        end = segment.locate(before)
        for start in reversed(starts):
            if start >= end:
                continue
            window = []
            for position, header in segment.headers(start):
                if position >= end:
                    break
                if header.producer_id >= 0 and not header.is_control:
                    window.append((header.producer_id, header))
            yield window
            end = start
