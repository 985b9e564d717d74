"""Finds the partitions and segments of a data directory, a copy of one, or a partition's directory
alone; and opens them in a way that cannot change a byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from tidelog.client import TopicPartition
from tidelog.disk import RealDisk, RealFile
from tidelog.env import Disk, File
from tidelog.log.checkpoint import (
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    parse_offsets,
)
from tidelog.log.config import LogConfig
from tidelog.log.names import (
    CLEANED,
    LOG,
    PARTITION_METADATA,
    SWAP,
    OffsetFile,
    file_name,
    parse_directory_name,
    parse_file_name,
)
from tidelog.log.segment import Segment
from tidelog.types import Offset

_CONFIG = LogConfig()


class NoSuchLog(Exception):
    """There is nothing to scan under this name."""


class SegmentChanged(Exception):
    """A file is not any more what the scan was planned for."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} has changed since the scan was planned: its node has compacted it, or cut off "
            "its end; scan again, or a copy"
        )


class ReadOnlyDisk(RealDisk):
    """The real files, for those who only look: a node may be running on them, or they may be the
    last copy."""

    def open(self, path: str, /) -> RealFile:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return RealFile(path, fd, os.fstat(fd).st_size)

    def make_directory(self, path: str, /) -> NoReturn:
        _refuse(path)

    def rename(self, path: str, new_path: str, /) -> NoReturn:
        _refuse(path)

    def remove(self, path: str, /) -> NoReturn:
        _refuse(path)

    def remove_directory(self, path: str, /) -> NoReturn:
        _refuse(path)

    def flush_directory(self, path: str, /) -> NoReturn:
        _refuse(path)

    def replace(self, path: str, content: bytes, /) -> NoReturn:
        _refuse(path)

    def set_modified_ms(self, path: str, modified_ms: int, /) -> NoReturn:
        _refuse(path)

    def lock(self, path: str, /) -> NoReturn:
        _refuse(path)

    def unlock(self, path: str, /) -> NoReturn:
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise PermissionError(f"a scan does not change {path}")


class LogFile(NamedTuple):
    """Where a segment's batches lie."""

    directory: str
    base_offset: Offset
    state: str = ""
    """`.swap` for compaction's output that was to replace others when the node died."""

    @property
    def path(self) -> str:
        return f"{self.directory}/{file_name(self.base_offset, LOG)}{self.state}"

    def open(self, disk: Disk) -> Segment:
        """Raises FileNotFoundError: retention may have been faster."""
        segment = _StatedSegment(disk, self)
        if disk.size(self.path) is None:
            raise FileNotFoundError(self.path)
        return segment


class _StatedSegment(Segment):
    """A segment whose files may have a suffix, and of which nothing behind `size` is read."""

    __slots__ = ("_bounded", "_state")

    def __init__(self, disk: Disk, file: LogFile) -> None:
        self._state = file.state
        self._bounded: _BoundedFile | None = None
        super().__init__(disk, file.directory, file.base_offset, _CONFIG)

    def path(self, kind: str) -> str:
        return super().path(kind) + self._state

    @property
    def file(self) -> File:
        if self._bounded is None:
            self._bounded = _BoundedFile(self.path(LOG), self)
        return self._bounded

    def close(self) -> None:
        if self._bounded is not None:
            self._bounded.close()
        self._bounded = None


class _BoundedFile(RealFile):
    """The first bytes of a file: as many as its segment has, and no fewer."""

    __slots__ = ("_segment",)

    def __init__(self, path: str, segment: Segment) -> None:
        self._segment = segment
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        super().__init__(path, fd, os.fstat(fd).st_size)

    def read(self, position: int, size: int, /) -> bytes:
        wanted = max(0, min(size, self._segment.size - position))
        found = super().read(position, wanted)
        if len(found) < wanted:
            raise SegmentChanged(self.path)
        return found


class ScannedLog(NamedTuple):
    """A partition, and what the checkpoints beside its directory say of it."""

    partition: TopicPartition
    directory: str
    log_start_offset: Offset
    recovery_point: Offset

    def files(self, disk: Disk) -> list[LogFile]:
        """The segments that stand, in order: those that a starting node would keep."""
        return standing_files(disk, self.directory)


def find_logs(disk: Disk, path: str) -> Iterator[ScannedLog]:
    """The partitions of a data directory, or the one whose directory this is. Raises NoSuchLog
    and MalformedFile."""
    if not disk.is_directory(path):
        raise NoSuchLog(f"there is no directory {path}")
    parent, _, name = path.rpartition("/")
    is_partition = parse_directory_name(name) is not None and bool(standing_files(disk, path))
    directory, names = (parent, [name]) if is_partition else (path, disk.names(path))
    log_starts = _offsets(disk, directory, LOG_START_CHECKPOINT)
    recovery_points = _offsets(disk, directory, RECOVERY_POINT_CHECKPOINT)
    found = False
    for name in names:
        parsed = parse_directory_name(name)
        if parsed is None or parsed.state or not _is_log(disk, f"{directory}/{name}"):
            continue
        found = True
        key = parsed.topic, parsed.partition
        yield ScannedLog(
            TopicPartition(*key),
            f"{directory}/{name}",
            log_starts.get(key, 0),
            recovery_points.get(key, 0),
        )
    if not found:
        nodes = [name for name in names if disk.exists(f"{path}/{name}/{META_PROPERTIES}")]
        hint = f"; perhaps {path}/{nodes[0]}" if nodes else ""
        raise NoSuchLog(
            f"{path} holds no partition: want a node's data directory, with directories such as "
            f"orders-0 in it, or one of these{hint}"
        )


def _is_log(disk: Disk, directory: str) -> bool:
    """Names such as node-1 are given to other directories, too."""
    if disk.exists(f"{directory}/{PARTITION_METADATA}"):
        return True
    return disk.is_directory(directory) and bool(standing_files(disk, directory))


def _offsets(disk: Disk, directory: str, name: str) -> dict[tuple[str, int], Offset]:
    path = f"{directory}/{name}"
    return parse_offsets(path, disk.read_file(path))


def standing_files(disk: Disk, directory: str) -> list[LogFile]:
    """As `clear_leftovers` decides, but only looking: what an interrupted compaction had finished
    counts instead of what it replaces, what it had not finished and what was deleted do not."""
    parsed = [file for file in map(parse_file_name, disk.names(directory)) if file is not None]
    cleaned = [file.offset for file in parsed if file.state == CLEANED]
    logs = [file for file in parsed if file.kind == LOG]
    swaps = [
        _stated(directory, file)
        for file in logs
        if file.state == SWAP and not (cleaned and file.offset >= min(cleaned))
    ]
    plain = [_stated(directory, file) for file in logs if not file.state]
    if swaps:
        start = min(file.base_offset for file in swaps)
        end = max(_next_offset(disk, file) for file in swaps)
        plain = [file for file in plain if not start <= file.base_offset < end]
    return sorted([*plain, *swaps], key=lambda file: file.base_offset)


def _stated(directory: str, file: OffsetFile) -> LogFile:
    return LogFile(directory, file.offset, file.state)


def _next_offset(disk: Disk, file: LogFile) -> Offset:
    next_offset = file.base_offset + 1
    for place in file.open(disk).places():
        next_offset = place.last_offset + 1
    return next_offset
