"""The snapshots in the metadata log's directory: which there are, a piece of one, a new one.

A snapshot is written under another name and renamed once it is durable, so that one with its
right name is whole. What a crash left half-written is removed by the next start.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Disk, File, FileSlice
from tidelog.log.checkpoint import MalformedFile
from tidelog.log.log import Log
from tidelog.metadata.batches import read_metadata
from tidelog.metadata.snapshot import SnapshotId, parse_snapshot_name, snapshot_name
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from tidelog.wire.records_types import CorruptRecords

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("tidelog.raft")

PART = ".part"
DELETED = ".deleted"
BOOTSTRAP = SnapshotId(0, 0)
"""Of what formatting wrote: its voters. It is never sent to others."""
HEADER_BYTES_MAX = 1 << 20
"""A snapshot's first batch, with all voters, is far smaller."""


class DamagedSnapshot(OSError):
    """What was fetched is none, or not what the leader once wrote."""


class FinishSnapshot(NamedTuple):
    """A work item: a written snapshot gets its name. One that another node sent is looked at
    first, because it takes the place of the log."""

    file: File
    part_path: str
    path: str
    is_fetched: bool = False

    def flush(self, disk: Disk) -> None:
        self.file.flush()
        if self.is_fetched and not is_sound(disk.read_file(self.part_path) or b""):
            raise DamagedSnapshot(None, "its batches are not sound", self.part_path)
        disk.rename(self.part_path, self.path)
        disk.flush_directory(self.path.rpartition("/")[0])


class RemoveFiles(NamedTuple):
    """A work item, because unlinking a large file takes its time."""

    paths: Sequence[str]

    def flush(self, disk: Disk) -> None:
        for path in self.paths:
            disk.remove(path)


class Part:
    """A snapshot that is being written."""

    def __init__(self, disk: Disk, path: str, part_path: str, snapshot_id: SnapshotId) -> None:
        self.id = snapshot_id
        self._disk = disk
        self._path = path
        self._part_path = part_path
        self._file = disk.open(part_path)

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer) -> None:
        """Raises DiskFull, OSError."""
        self._file.append(data)

    def finish(self, *, is_fetched: bool = False) -> FinishSnapshot:
        """What is left to do; afterwards the snapshots have one more."""
        return FinishSnapshot(self._file, self._part_path, self._path, is_fetched)

    def abandon(self) -> None:
        self._file.close()
        self._disk.remove(self._part_path)


class Snapshots:
    """Those other than the bootstrap one, by their offsets."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._open: dict[SnapshotId, File] = {}
        self._headers: dict[SnapshotId, list[Message]] = {}
        self._parts = 0
        found = []
        for name in disk.names(directory):
            snapshot_id = parse_snapshot_name(name)
            if snapshot_id is not None and snapshot_id != BOOTSTRAP:
                found.append(snapshot_id)
            elif ".checkpoint" in name and name.endswith((PART, DELETED)):
                disk.remove(f"{directory}/{name}")
        self.ids = sorted(found)
        while self.ids and not is_sound(disk.read_file(self._path(self.ids[-1])) or b""):
            log.warning("%s is of no use: it is damaged", self._path(self.ids.pop()))

    @property
    def latest(self) -> SnapshotId | None:
        return self.ids[-1] if self.ids else None

    @property
    def earliest(self) -> SnapshotId | None:
        return self.ids[0] if self.ids else None

    def __contains__(self, snapshot_id: SnapshotId) -> bool:
        index = bisect_left(self.ids, snapshot_id)
        return index < len(self.ids) and self.ids[index] == snapshot_id

    @property
    def size_bytes(self) -> int:
        return sum(self.file(snapshot_id).size for snapshot_id in self.ids)

    def file(self, snapshot_id: SnapshotId) -> File:
        """To read one of them."""
        file = self._open.get(snapshot_id)
        if file is None:
            file = self._open[snapshot_id] = self._disk.open(self._path(snapshot_id))
        return file

    def read(self, snapshot_id: SnapshotId, position: int, bytes_max: int) -> FileSlice:
        """A piece, cut at any byte."""
        file = self.file(snapshot_id)
        return FileSlice(file, position, min(bytes_max, file.size - position))

    def quorum_records(self, snapshot_id: SnapshotId) -> list[Message]:
        """KRaft version and voters, which its first batch has behind the header; none if there
        is no such snapshot, as may be with the bootstrap one. Raises DecodeError."""
        return self._header(snapshot_id)[1:]

    def timestamp_ms(self, snapshot_id: SnapshotId) -> int:
        """Of the last record that it has. Raises DecodeError."""
        header = self._header(snapshot_id)[0]
        assert isinstance(header, SnapshotHeaderRecord)
        return header.last_contained_log_timestamp

    def _header(self, snapshot_id: SnapshotId) -> list[Message]:
        known = self._headers.get(snapshot_id)
        if known is None:
            if not self._disk.exists(self._path(snapshot_id)):
                return []
            content = self.file(snapshot_id).read(0, HEADER_BYTES_MAX)
            first = next(iter(BatchWalk(content)), None)
            known = [] if first is None else [logged.record for logged in read_metadata(first)]
            if not known or not isinstance(known[0], SnapshotHeaderRecord):
                raise DecodeError(f"{self._path(snapshot_id)} has no header")
            self._headers[snapshot_id] = known
        return known

    def begin(self, snapshot_id: SnapshotId) -> Part:
        """One to be written, under a name of its own: the same snapshot may be taken here and
        fetched from the leader at once. Raises DiskFull, OSError."""
        self._parts += 1
        path = self._path(snapshot_id)
        return Part(self._disk, path, f"{path}.{self._parts}{PART}", snapshot_id)

    def add(self, snapshot_id: SnapshotId) -> None:
        """It has its name now."""
        if snapshot_id not in self:
            insort(self.ids, snapshot_id)

    def discard(self, part: Part) -> RemoveFiles:
        """One that got its name when the log began behind it already."""
        return RemoveFiles([self._path(part.id)])

    def drop_below(self, end_offset: Offset) -> RemoveFiles:
        """Forget those that end below; they are to be removed."""
        dropped = [one for one in self.ids if one.end_offset < end_offset]
        self.ids = self.ids[len(dropped) :]
        for snapshot_id in dropped:
            self._open.pop(snapshot_id, None)
            self._headers.pop(snapshot_id, None)
        return RemoveFiles([self._path(snapshot_id) for snapshot_id in dropped])

    def _path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_name(*snapshot_id)}"


def is_sound(content: Buffer) -> bool:
    """Whether it is a snapshot, from its header to its footer, and every batch's checksum holds."""
    walk = BatchWalk(content)
    first = last = None
    for batch in walk:
        first, last = first or batch, batch
    if walk.flaw is not None or first is None or last is None:
        return False
    try:
        return (
            first.is_control
            and last.is_control
            and isinstance(read_metadata(first)[0].record, SnapshotHeaderRecord)
            and isinstance(read_metadata(last)[-1].record, SnapshotFooterRecord)
        )
    except (DecodeError, CorruptRecords, IndexError):
        return False


def last_epoch(metadata: Log, snapshots: Snapshots) -> int:
    """Of the last record: in the log, or in the snapshot that it begins with."""
    if metadata.leader_epochs.latest >= 0:
        return metadata.leader_epochs.latest
    latest = snapshots.latest
    return latest.epoch if latest and latest.end_offset == metadata.log_end_offset else 0


def reconcile(metadata: Log, snapshots: Snapshots) -> None:
    """After a start: a snapshot that a crash left without its log begins an empty one, and a log
    begins where a snapshot ends. Raises MalformedFile if there is none for that."""
    latest = snapshots.latest
    if latest is not None and (
        latest.end_offset > metadata.log_end_offset
        or latest.epoch > last_epoch(metadata, snapshots)
    ):
        metadata.truncate_fully_and_start_at(latest.end_offset)
    start = metadata.log_start_offset
    if start > 0:
        found = next((one for one in snapshots.ids if one.end_offset >= start), None)
        if found is None:
            raise MalformedFile(
                metadata.path,
                f"the log begins at offset {start}, and no snapshot has what was"
                " before: copy the directory from another node of the quorum, or restore it",
            )
        metadata.advance_log_start_offset(found.end_offset)
        snapshots.drop_below(found.end_offset).flush(metadata.disk)
