"""`.txnindex`: the aborted transactions whose markers lie in a segment."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.env import Disk, File
from tidelog.types import Offset

_ENTRY = struct.Struct(">hqqqq")
assert _ENTRY.size == 34
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """Its records lie in [first_offset, last_offset], the last one being the marker."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset
    """Right after the marker: transactions of later entries begin no earlier."""


def write_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    """As the file holds them."""
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def read_entries(content: bytes, base_offset: Offset) -> list[AbortedTransaction] | None:
    """None if the file is damaged: of odd size, or with markers that lie below the segment."""
    if len(content) % _ENTRY.size:
        return None
    entries = []
    for version, *fields in _ENTRY.iter_unpack(content):
        entry = AbortedTransaction(*fields)
        if version != _VERSION or entry.last_offset < base_offset:
            return None
        entries.append(entry)
    return entries


def write_txn_index(disk: Disk, path: str, entries: list[AbortedTransaction], written: int) -> File:
    """Make the file hold these, of which so many were written before; still to be flushed."""
    file = disk.open(path)
    if file.size != written * _ENTRY.size:
        file.truncate(0)
        written = 0
    if written < len(entries):
        file.append(write_entries(entries[written:]))
    return file
