"""The real disk. The only module below the shells that touches the operating system's files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.env import AlreadyLocked, DiskFull, DiskUsage

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("tidelog.disk")

LOCK_ATTEMPTS_MAX = 10

TOLD_EVERY_SECONDS = 10.0
"""Producers try again and again while a disk is full."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class _FullDisks:
    """Says that a disk is full: who writes waits for room, and may have nobody to tell."""

    def __init__(self) -> None:
        self._told: dict[int, float] = {}

    def tell(self, device: int, path: str, wanted: int) -> None:
        now = time.monotonic()
        if now - self._told.get(device, -TOLD_EVERY_SECONDS) >= TOLD_EVERY_SECONDS:
            self._told[device] = now
            log.error("the disk of %s is full: no room for %d bytes; make some", path, wanted)


_full_disks = _FullDisks()


@contextlib.contextmanager
def _full_told_apart() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(f"{error.filename or 'the disk'} is full") from error
        raise


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Calls on a descriptor do not say which file failed, and with it which directory."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


class RealFile:
    """A descriptor and the size that goes with it."""

    __slots__ = ("_fd", "path", "size")

    def __init__(self, path: str, fd: int, size: int) -> None:
        self._fd = fd
        self.path = path
        """Where it was when it was opened."""
        self.size = size

    def __repr__(self) -> str:
        return f"RealFile({self.path!r})"

    def append(self, content: Buffer, /) -> None:
        size = self.size
        wanted = len(content)  # type: ignore[arg-type] # bytes, or a view of them
        try:
            written = os.pwrite(self._fd, content, size)
            if written != wanted:
                self._append_rest(bytes(content), written)
        except OSError as error:
            # Readers go by our size, but recovery would find the part that was written.
            with _named(self.path):
                os.ftruncate(self._fd, size)
            error.filename = self.path
            if error.errno in _FULL:
                _full_disks.tell(os.fstat(self._fd).st_dev, self.path, wanted)
                raise DiskFull(f"{self.path}: no room for {wanted} bytes") from error
            raise
        self.size = size + wanted

    def _append_rest(self, content: bytes, written: int) -> None:
        while written < len(content):
            written += os.pwrite(self._fd, content[written:], self.size + written)

    def read(self, position: int, size: int, /) -> bytes:
        try:
            return os.pread(self._fd, size, position)
        except OSError as error:
            error.filename = self.path
            raise

    def truncate(self, size: int, /) -> None:
        assert size <= self.size
        with _named(self.path):
            os.ftruncate(self._fd, size)
        self.size = size

    def flush(self) -> None:
        with _named(self.path):
            os.fdatasync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class RealDisk:
    """Files of the operating system; paths are its own."""

    def __init__(self) -> None:
        self._locks: dict[str, int] = {}

    def open(self, path: str, /) -> RealFile:
        with _full_told_apart():
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return RealFile(path, fd, os.fstat(fd).st_size)

    def exists(self, path: str, /) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str, /) -> bool:
        return os.path.isdir(path)  # noqa: PTH112

    def size(self, path: str, /) -> int | None:
        try:
            return os.stat(path).st_size  # noqa: PTH116
        except FileNotFoundError:
            return None

    def names(self, directory: str, /) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def make_directory(self, path: str, /) -> None:
        with _full_told_apart():
            os.makedirs(path, exist_ok=True)  # noqa: PTH103

    def rename(self, path: str, new_path: str, /) -> None:
        with _full_told_apart():
            os.rename(path, new_path)  # noqa: PTH104

    def remove(self, path: str, /) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108

    def remove_directory(self, path: str, /) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def flush_directory(self, path: str, /) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _named(path):
                os.fsync(fd)
        finally:
            os.close(fd)

    def read_file(self, path: str, /) -> bytes | None:
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes, /) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary)
        try:
            file.truncate(0)
            file.append(content)
            file.flush()
        finally:
            file.close()
        self.rename(temporary, path)
        self.flush_directory(os.path.dirname(path) or ".")  # noqa: PTH120

    def modified_ms(self, path: str, /) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116

    def set_modified_ms(self, path: str, modified_ms: int, /) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def lock(self, path: str, /) -> None:
        for _ in range(LOCK_ATTEMPTS_MAX):
            fd = self._lock(path)
            # A node of Apache's removes the file when it stops: if it did so while we waited for
            # the lock, the next one would not see ours.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(path)):  # noqa: PTH116
                    self._locks[path] = fd
                    return
            os.close(fd)
        raise AlreadyLocked(f"{path} is removed again and again by another process")

    def _lock(self, path: str) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The first is what Java's FileLock takes, but one process may take it twice; the
            # second keeps two nodes of one process apart.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise AlreadyLocked(f"{path} is locked by another process") from error
        except BaseException:
            os.close(fd)
            raise
        return fd

    def unlock(self, path: str, /) -> None:
        # The file stays: were it removed, one who opened it before would hold a lock that nobody
        # who comes later sees.
        os.close(self._locks.pop(path))

    def usage(self, path: str, /) -> DiskUsage:
        volume = os.statvfs(path)
        return DiskUsage(volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize)
