"""Names of files and directories: a segment's base offset in 20 digits, `<topic>-<partition>`."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.types import Offset

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
INDEXES = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

PARTITION_METADATA = "partition.metadata"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

NAME_LENGTH_MAX = 255

_OFFSET_FILE = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))((?:\.\w+)?)\Z")
_DIRECTORY = re.compile(r"(.+)-(\d+)\Z", re.DOTALL)
_MOVED = re.compile(r"(.+)-(\d+)\.([0-9a-f]{32})-(delete|future|stray)\Z", re.DOTALL)


class OffsetFile(NamedTuple):
    """What the name of a file in a partition's directory says."""

    offset: Offset
    kind: str
    """`.log`, an index or `.snapshot`."""
    state: str
    """Empty, or `.deleted`, `.cleaned`, `.swap`."""


class PartitionDirectory(NamedTuple):
    """What the name of a directory says."""

    topic: str
    partition: int
    state: str = ""
    """Empty, or `delete`, `future`, `stray`."""


def file_name(offset: Offset, kind: str) -> str:
    """`00000000000000004711.log`."""
    return f"{offset:020d}{kind}"


def parse_file_name(name: str) -> OffsetFile | None:
    """None if it is none of a segment's files."""
    found = _OFFSET_FILE.match(name)
    return OffsetFile(int(found[1]), found[2], found[3]) if found else None


def directory_name(topic: str, partition: int) -> str:
    """`tides-0`."""
    return f"{topic}-{partition}"


def moved_directory_name(topic: str, partition: int, unique: bytes, state: str) -> str:
    """`tides-0.<32 hex digits>-delete`; a long topic's name is cut to what a file system takes."""
    assert len(unique) == 16
    suffix = f"-{partition}.{unique.hex()}-{state}"
    return topic[: NAME_LENGTH_MAX - len(suffix)] + suffix


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """None if it is not a partition's."""
    found = _MOVED.match(name)
    if found:
        return PartitionDirectory(found[1], int(found[2]), found[4])
    found = _DIRECTORY.match(name)
    return PartitionDirectory(found[1], int(found[2])) if found else None
