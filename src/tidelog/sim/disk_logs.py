"""Reads the batches of logs from simulated disks, for the ledger."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache

from tidelog.log.log import Log
from tidelog.log.names import LOG, file_name, parse_file_name
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.ledger import EVERY_EPOCH, Entry, Ledger, ReplicaLog, entry
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk, RecordBatch, read_batch

HEADER = struct.Struct(">qiibIhi16xqhi")
"""Of a batch: base offset, length, leader epoch, magic, checksum, attributes, last offset delta;
behind two timestamps producer id, producer epoch, base sequence."""
LENGTH_BYTES = 12
"""That the length does not count."""


def sound_entries(disk: SimulatedDisk, path: str, segment: Offset) -> Iterator[Entry]:
    """The batches of one segment's file, as far as their checksums are right."""
    for batch in BatchWalk(disk.peek(f"{path}/{file_name(segment, LOG)}")):
        yield entry(batch, segment)


_new = tuple.__new__


@lru_cache(maxsize=1000)
def _file(path: str, segment: Offset) -> str:
    return f"{path}/{file_name(segment, LOG)}"


def read_entries(disk: SimulatedDisk, path: str, segment: Offset, position: int) -> Iterator[Entry]:
    """Those of a running node's file, from a position on: nobody doubts them."""
    content = disk.content(_file(path, segment))
    end = len(content)
    while position + HEADER.size <= end:
        header = HEADER.unpack_from(content, position)
        base_offset, length, epoch, _, crc, _, last_delta = header[:7]
        end_position = position + LENGTH_BYTES + length
        if end_position > end:
            return
        end_offset, place = base_offset + last_delta + 1, (segment, position, end_position)
        # Of every batch of every replica: without the call that Entry(...) is.
        yield _new(Entry, (base_offset, end_offset, epoch, crc, *place, header[7:]))
        position = end_position


def is_there(disk: SimulatedDisk, path: str, one: Entry) -> bool:
    """Whether a batch still lies where it was found."""
    view = disk.peek(f"{path}/{file_name(one.segment, LOG)}", one.position)
    found = read_batch(view, 0, len(view))
    return isinstance(found, RecordBatch) and entry(found).is_same_as(one)


def segments_of(disk: SimulatedDisk, path: str) -> list[Offset]:
    """The base offsets of the segments that lie in a directory."""
    found = []
    for name in disk.names(path):
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind == LOG and not parsed.state:
            found.append(parsed.offset)
    return found


def surviving(disk: SimulatedDisk, path: str) -> ReplicaLog:
    """What recovery could find at most."""
    log = ReplicaLog()
    for segment in segments_of(disk, path):
        for found in sound_entries(disk, path, segment):
            if log.entries and found.base_offset < log.end_offset:
                return log
            log.append(found)
    return log


def follow(
    ledger: Ledger,
    machine: str,
    disk: SimulatedDisk,
    log: Log,
    leader_epoch: int = EVERY_EPOCH,
    *,
    may_be_rewritten: bool,
) -> list[Entry]:
    """Take in what happened to a replica's log since the last time; what was appended. Where the
    leader may have changed, the same end offset may be another's. See Ledger.truncated for the
    leader epoch."""
    replica = ledger.replica(machine)
    end_offset = log.log_end_offset
    if replica.start_offset != log.log_start_offset:
        replica.forget_below(log.log_start_offset)
    if replica.entries and replica.end_offset > end_offset:
        ledger.truncated(machine, end_offset, leader_epoch)
    while (
        may_be_rewritten and replica.entries and not is_there(disk, log.path, replica.entries[-1])
    ):
        ledger.truncated(machine, replica.entries[-1].base_offset, leader_epoch)
    if replica.entries and replica.end_offset == end_offset:
        return []
    segment_offset, segment_position = -1, 0
    if replica.entries:
        segment_offset = replica.entries[-1].segment
        segment_position = replica.entries[-1].end_position
    appended = []
    for segment in log.segments.from_offset(max(segment_offset, 0)):
        position = segment_position if segment.base_offset == segment_offset else 0
        for found in read_entries(disk, log.path, segment.base_offset, position):
            if found.end_offset > end_offset:
                break
            if found.end_offset > replica.start_offset:
                ledger.appended(machine, found)
                appended.append(found)
    return appended
