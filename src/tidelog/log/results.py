"""What a log answers and raises."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.env import Disk, File
from tidelog.types import Offset
from tidelog.wire.batch import FlawKind


class OffsetOutOfRange(Exception):
    """Below the log's start or above its end."""


class CorruptBatch(Exception):
    """A leader sent what is not sound: a follower must not store it."""

    def __init__(self, kind: FlawKind, offset: Offset) -> None:
        super().__init__(f"after offset {offset}: {kind.value}")
        self.kind = kind


class DamagedSegment(Exception):
    """Where a batch should be there is none. Takes the partition offline, and no other."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {why}")
        self.path = path
        self.position = position
        self.why = why


class Appended(NamedTuple):
    """Where a batch went."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    """-1 where the client's timestamps stay."""
    log_start_offset: Offset
    is_duplicate: bool = False
    """It was there already: these are its offsets, nothing was written."""


class Unflushed(NamedTuple):
    """What has to be flushed for the log to be durable below end_offset: the files, then the
    replacements (path, content), then the directories."""

    end_offset: Offset
    files: tuple[File, ...]
    replacements: tuple[tuple[str, bytes], ...]
    directories: tuple[str, ...]

    def flush(self, disk: Disk) -> None:
        """All of it, here and now."""
        for file in self.files:
            file.flush()
        for path, content in self.replacements:
            disk.replace(path, content)
        for directory in self.directories:
            disk.flush_directory(directory)
