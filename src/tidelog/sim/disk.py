"""A disk in memory that loses at a crash what was not flushed.

A file's bytes survive a crash up to its last flush; of what was appended later, a part that the
test chooses. Names (created, renamed, removed) survive up to the last flush of their directory;
of the later changes a first part in the order in which they were made, as a journal keeps them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.env import AlreadyLocked, DiskFull, DiskUsage

if TYPE_CHECKING:
    from typing_extensions import Buffer


UNLIMITED_BYTES = 1 << 40
SECTOR_BYTES = 512
"""Lost bytes that read as zeros begin at a multiple of it, or where the last flush ended."""


class Crashed(BaseException):
    """The power failed during this call. No `except Exception` may go on after it."""


class _Inode:
    """A file's content, and how much of it is durable."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.stable_size = 0
        """So many first bytes are durable as they are."""
        self.durable_rest = b""
        """What the platter still holds after them, though the process has cut it off."""
        self.modified_ms = 0

    def truncate(self, size: int) -> None:
        if size < self.stable_size:
            self.durable_rest = bytes(self.content[size : self.stable_size]) + self.durable_rest
            self.stable_size = size
        del self.content[size:]

    def flush(self) -> None:
        self.stable_size = len(self.content)
        self.durable_rest = b""

    @property
    def unsynced_bytes(self) -> int:
        """Appended since the last flush."""
        return len(self.content) - self.stable_size

    def whole_sectors(self, kept: int) -> int:
        """How many of the kept unsynced bytes lie before a sector that was lost."""
        end = (self.stable_size + kept) // SECTOR_BYTES * SECTOR_BYTES
        return max(0, end - self.stable_size)

    def after_crash(self, kept: int, zeros: int, *, is_cut: bool) -> _Inode:
        """With so many of the unsynced bytes. With none of them, what was cut off since the last
        flush may be back."""
        survivor = _Inode()
        stable = self.content[: self.stable_size]
        tail = self.content[self.stable_size : self.stable_size + kept] + bytes(zeros)
        survivor.content = stable + (tail or (b"" if is_cut else self.durable_rest))
        survivor.modified_ms = self.modified_ms
        survivor.flush()
        return survivor


class SimulatedFile:
    """An open file of a SimulatedDisk."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._is_open = True
        self.path = path

    def __repr__(self) -> str:
        return f"SimulatedFile({self.path!r})"

    @property
    def size(self) -> int:
        return len(self._inode.content)

    def append(self, appended: Buffer, /) -> None:
        assert self._is_open
        content = bytes(appended)
        self._disk.begin("append", self.path, lambda cut: self._append(content[:cut]))
        if self._disk.is_limited and len(content) > self._disk.free_bytes:
            raise DiskFull(f"{self.path}: no room for {len(content)} bytes")
        self._append(content)

    def _append(self, content: bytes) -> None:
        self._inode.content += content
        self._inode.modified_ms = self._disk.wall_ms

    def read(self, position: int, size: int, /) -> bytes:
        assert self._is_open
        self._disk.begin("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def truncate(self, size: int, /) -> None:
        assert self._is_open
        assert size <= self.size
        self._disk.begin("truncate", self.path)
        self._inode.truncate(size)

    def flush(self) -> None:
        assert self._is_open
        self._disk.begin("flush", self.path)
        self._inode.flush()

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor")

    def close(self) -> None:
        self._is_open = False


_Entries = dict[str, _Inode | None]
"""Path -> its file, or None for a directory."""


class _Gone:
    """Stands for what is no longer at a path."""


_GONE = _Gone()
_Change = list[tuple[str, _Inode | _Gone | None]]
"""Paths, in order, and what is there since."""


def _apply(changes: _Change, entries: _Entries) -> None:
    for path, inode in changes:
        if isinstance(inode, _Gone):
            del entries[path]
        else:
            entries[path] = inode


def _no_fault(operation: str, path: str) -> None:
    return None


class SimulatedDisk:
    """Implements Disk. Tests set its faults and crash it."""

    def __init__(self, capacity_bytes: int = UNLIMITED_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self.wall_ms = 0
        """What modification times are taken from."""
        self.operations = 0
        """How many calls changed something; a test crashes at each in turn."""
        self.crash_at: int | None = None
        """Raise Crashed at the operation of this number."""
        self.torn_bytes = 0
        """If that is an append, so many of its bytes have been written."""
        self.fault: Callable[[str, str], OSError | DiskFull | None] = _no_fault
        """Asked before each call, with its name and path; what it returns is raised."""
        self._entries: _Entries = {}
        self._durable: _Entries = {}
        self._journal: list[_Change] = []
        """Changes of names since the last flush."""
        self._names: dict[str, set[str]] = {}
        """Of what lies in each directory."""
        self._locks: set[str] = set()

    @property
    def is_faulty(self) -> bool:
        return self.fault is not _no_fault

    def heal(self) -> None:
        """No call fails from now on."""
        self.fault = _no_fault

    @property
    def is_limited(self) -> bool:
        """Adding up what there is takes time."""
        return self.capacity_bytes < UNLIMITED_BYTES

    @property
    def free_bytes(self) -> int:
        """What is left of the capacity."""
        return self.capacity_bytes - sum(len(i.content) for i in self._entries.values() if i)

    def begin(
        self, operation: str, path: str, tear: Callable[[int], None] = lambda cut: None
    ) -> None:
        """Every call starts here, and fails here if a test wants it to."""
        error = self.fault(operation, path)
        if error is not None:
            if isinstance(error, OSError) and error.filename is None:
                error.filename = path
            raise error
        if operation == "read":
            return
        if self.crash_at is not None and self.operations >= self.crash_at:
            tear(self.torn_bytes)
            raise Crashed(operation, path)
        self.operations += 1

    def crash(
        self,
        keep_bytes: Callable[[str, int], int] = lambda path, unsynced: 0,
        keep_names: Callable[[int], int] = lambda changes: 0,
        zeros: Callable[[str, int], int] = lambda path, lost: 0,
        *,
        keep_cuts: bool = False,
    ) -> SimulatedDisk:
        """The disk that the next process finds. keep_bytes says for a path how many of its
        unsynced bytes are there, zeros how many of the lost ones became zeros, keep_names how
        many of the unsynced changes of names happened, keep_cuts whether truncations did."""
        survivor = SimulatedDisk(self.capacity_bytes)
        kept = keep_names(len(self._journal))
        entries = dict(self._durable)
        for changes in self._journal[:kept]:
            _apply(changes, entries)
        for path, inode in entries.items():
            after = None
            if inode is not None:
                unsynced = inode.unsynced_bytes
                bytes_kept = min(keep_bytes(path, unsynced), unsynced)
                lost = zeros(path, unsynced - bytes_kept)
                if lost:
                    bytes_kept = inode.whole_sectors(bytes_kept)
                after = inode.after_crash(bytes_kept, lost, is_cut=keep_cuts)
            survivor._put(path, after)
        survivor._durable = dict(survivor._entries)
        survivor.wall_ms = self.wall_ms
        return survivor

    def durable_file(self, path: str) -> bytes | None:
        """What is surely there after a crash; None if perhaps nothing is."""
        inode = self._durable.get(path)
        return None if inode is None else bytes(inode.content[: inode.stable_size])

    def durable_size(self, path: str) -> int:
        """How many of a file's first bytes are surely there after a crash."""
        inode = self._durable.get(path)
        return 0 if inode is None or self._entries.get(path) is not inode else inode.stable_size

    def paths(self) -> list[str]:
        """Of all files."""
        return sorted(path for path, inode in self._entries.items() if inode is not None)

    def peek(self, path: str, position: int = 0) -> memoryview:
        """What lies there, without any fault: for those who watch."""
        inode = self._entries.get(path)
        return memoryview(b"" if inode is None else bytes(inode.content[position:]))

    def content(self, path: str) -> bytes | bytearray:
        """The same as it is, to be read at once."""
        inode = self._entries.get(path)
        return b"" if inode is None else inode.content

    def release_locks(self) -> None:
        """The process is gone that held them; all that it wrote is as it was."""
        self._locks.clear()
        self.crash_at = None

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """The platter forgets."""
        inode = self._entries[path]
        assert inode is not None
        inode.content[position] ^= 1 << bit

    def copy(self) -> SimulatedDisk:
        """As if nothing had happened but a restart of the process."""
        return self.crash(lambda path, unsynced: unsynced, lambda changes: changes, keep_cuts=True)

    def _put(self, path: str, inode: _Inode | None) -> _Change:
        """Give something a name; what that changes."""
        if path not in self._entries:
            parent, _, name = path.rpartition("/")
            self._names.setdefault(parent, set()).add(name)
        self._entries[path] = inode
        return [(path, inode)]

    def _drop(self, path: str) -> _Change:
        del self._entries[path]
        parent, _, name = path.rpartition("/")
        self._names[parent].remove(name)
        return [(path, _GONE)]

    def _tree(self, path: str) -> list[str]:
        """It and what lies in it."""
        if self._entries.get(path) is not None:
            return [path]
        return [p for p in self._entries if p == path or p.startswith(f"{path}/")]

    def open(self, path: str, /) -> SimulatedFile:
        inode = self._entries.get(path)
        if inode is None:
            assert path not in self._entries, f"{path} is a directory"
            self.begin("open", path)
            self._require_directory(path)
            inode = _Inode()
            inode.modified_ms = self.wall_ms
            self._journal.append(self._put(path, inode))
        return SimulatedFile(self, path, inode)

    def _require_directory(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and self._entries.get(parent, False) is not None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)

    def exists(self, path: str, /) -> bool:
        return path in self._entries

    def is_directory(self, path: str, /) -> bool:
        return self._entries.get(path, False) is None

    def size(self, path: str, /) -> int | None:
        inode = self._entries.get(path)
        return len(inode.content) if inode else None

    def names(self, directory: str, /) -> list[str]:
        return sorted(self._names.get(directory, ()))

    def make_directory(self, path: str, /) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self._entries:
            self.make_directory(parent)
        if path not in self._entries:
            self.begin("make_directory", path)
            self._journal.append(self._put(path, None))

    def rename(self, path: str, new_path: str, /) -> None:
        self.begin("rename", path)
        if path not in self._entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        changes: _Change = []
        for old in self._tree(path):
            inode = self._entries[old]
            changes += self._drop(old)
            changes += self._put(new_path + old[len(path) :], inode)
        self._journal.append(changes)

    def remove(self, path: str, /) -> None:
        if path in self._entries:
            self.begin("remove", path)
            self._journal.append(self._drop(path))

    def remove_directory(self, path: str, /) -> None:
        self.begin("remove_directory", path)
        self._journal.append([change for old in self._tree(path) for change in self._drop(old)])

    def flush_directory(self, path: str, /) -> None:
        """Like a journal's commit it makes all earlier changes durable, of any directory."""
        self.begin("flush_directory", path)
        if not self.is_directory(path):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        for changes in self._journal:
            _apply(changes, self._durable)
        self._journal.clear()

    def read_file(self, path: str, /) -> bytes | None:
        self.begin("read", path)
        inode = self._entries.get(path)
        return None if inode is None else bytes(inode.content)

    def replace(self, path: str, content: bytes, /) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary)
        file.truncate(0)
        file.append(content)
        file.flush()
        self.rename(temporary, path)
        self.flush_directory(path.rpartition("/")[0])

    def modified_ms(self, path: str, /) -> int:
        inode = self._entries[path]
        assert inode is not None
        return inode.modified_ms

    def set_modified_ms(self, path: str, modified_ms: int, /) -> None:
        inode = self._entries[path]
        assert inode is not None
        inode.modified_ms = modified_ms

    def lock(self, path: str, /) -> None:
        if path in self._locks:
            raise AlreadyLocked(f"{path} is locked by another process")
        self.open(path)
        self._locks.add(path)

    def unlock(self, path: str, /) -> None:
        self._locks.remove(path)

    def usage(self, path: str, /) -> DiskUsage:
        return DiskUsage(self.capacity_bytes, self.free_bytes)
