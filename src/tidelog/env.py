"""What the world gives to a node: time, files and chance. The node gets them as arguments; the
server passes the real ones (disk.py), the simulator its own (sim/disk.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Now(NamedTuple):
    """The two clocks: one for timers, one for what people and records call the time."""

    monotonic_ms: int
    wall_ms: int


class DiskFull(Exception):
    """No room (ENOSPC, EDQUOT). What was to be written is not there, in part or whole, and the
    same call may succeed later. Not an OSError: that one takes the log directory offline."""


class AlreadyLocked(Exception):
    """Another process works on this directory."""


class File(Protocol):
    """An open file. What is appended lies in the page cache; only flush makes it durable."""

    @property
    def size(self) -> int:
        """Kept, not asked of the operating system."""

    def append(self, content: Buffer, /) -> None:
        """One write at the end, or nothing: raises DiskFull or OSError after what was written
        in part has been cut off again."""

    def read(self, position: int, size: int, /) -> bytes:
        """Shorter only at the end of the file."""

    def truncate(self, size: int, /) -> None:
        """Cut to size, which is not more than there is."""

    def flush(self) -> None:
        """Make content and size durable. Blocks: the shell does it in a thread."""

    def fileno(self) -> int:
        """For sendfile and pread by the shell; a simulated file has none."""

    def close(self) -> None:
        """Free the descriptor. A file that nothing refers to is closed as well."""


class FileSlice:
    """Bytes that lie in a file: what a read returns, and what the shell sends. It keeps its
    file open, so it stays valid when the segment is deleted meanwhile."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FileSlice({self.file!r}, {self.position}, {self.size})"

    def read(self) -> bytes:
        """The bytes."""
        return self.file.read(self.position, self.size)


class DiskUsage(NamedTuple):
    """Of the volume that holds a directory."""

    total_bytes: int
    free_bytes: int


class Disk(Protocol):
    """Files by path: plain strings with `/`. OSError means that the log directory is broken."""

    def open(self, path: str, /) -> File:
        """Opens to read and append; creates the file if there is none. The directory entry is
        durable after flush_directory."""

    def exists(self, path: str, /) -> bool:
        """Whether there is a file or directory of this name."""

    def is_directory(self, path: str, /) -> bool:
        """Whether there is a directory of this name."""

    def size(self, path: str, /) -> int | None:
        """Of a file; None if there is none."""

    def names(self, directory: str, /) -> list[str]:
        """What lies in the directory, sorted; empty if there is no directory."""

    def make_directory(self, path: str, /) -> None:
        """With its parents; one that exists already is fine."""

    def rename(self, path: str, new_path: str, /) -> None:
        """Of a file or a directory; replaces a file."""

    def remove(self, path: str, /) -> None:
        """A file; one that is gone already is fine."""

    def remove_directory(self, path: str, /) -> None:
        """With all that is in it."""

    def flush_directory(self, path: str, /) -> None:
        """Make names durable: what was created, renamed and removed in it."""

    def read_file(self, path: str, /) -> bytes | None:
        """The whole content; None if there is no such file."""

    def replace(self, path: str, content: bytes, /) -> None:
        """Whole and durable: `<path>.tmp`, flush, rename, flush the directory. A crash leaves
        the old content or the new."""

    def modified_ms(self, path: str, /) -> int:
        """When the file was last written."""

    def set_modified_ms(self, path: str, modified_ms: int, /) -> None:
        """Compaction gives its output the time of its input."""

    def lock(self, path: str, /) -> None:
        """Hold this file against other processes; raises AlreadyLocked."""

    def unlock(self, path: str, /) -> None:
        """Let go. The file stays."""

    def usage(self, path: str, /) -> DiskUsage:
        """How full the volume is."""


class Work(Protocol):
    """Something to be made durable, outside a step."""

    def flush(self, disk: Disk, /) -> None:
        """Blocks. Raises DiskFull or OSError."""


class Rng(Protocol):
    """Chance, seeded in the simulator."""

    def randrange(self, start: int, stop: int | None = None, /) -> int:
        """From start to stop - 1; with one argument, from 0."""

    def randbytes(self, n: int, /) -> bytes:
        """For ids."""
