"""The real disk, and that the simulated one does the same."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from tidelog.disk import RealDisk, _FullDisks
from tidelog.env import AlreadyLocked, DiskFull
from tidelog.sim.disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request, tmp_path):
    return RealDisk() if request.param == "real" else SimulatedDisk()


@pytest.fixture
def folder(disk, tmp_path) -> str:
    path = f"{tmp_path}/d"
    disk.make_directory(path)
    disk.make_directory(path)
    return path


def test_files(disk, folder):
    file = disk.open(f"{folder}/a")
    assert file.size == 0
    for content in (b"one", memoryview(b"two"), bytearray(b"three")):
        file.append(content)
    assert file.size == 11
    assert file.read(3, 3) == b"two"
    assert file.read(6, 100) == b"three"
    assert file.read(50, 1) == b""
    file.truncate(4)
    file.append(b"!")
    file.flush()
    file.close()
    assert disk.open(f"{folder}/a").size == 5
    assert disk.read_file(f"{folder}/a") == b"onet!"
    assert disk.size(f"{folder}/a") == 5


def test_names(disk, folder):
    for name in ("b", "a"):
        disk.open(f"{folder}/{name}")
    disk.rename(f"{folder}/b", f"{folder}/c")
    assert disk.names(folder) == ["a", "c"]
    disk.remove(f"{folder}/a")
    disk.remove(f"{folder}/a")
    disk.flush_directory(folder)
    assert disk.names(folder) == ["c"]
    assert disk.exists(f"{folder}/c")
    assert not disk.exists(f"{folder}/a")
    assert disk.size(f"{folder}/a") is None
    assert disk.read_file(f"{folder}/a") is None
    assert disk.names(f"{folder}/none") == []
    disk.make_directory(f"{folder}/x/y")
    assert disk.is_directory(f"{folder}/x/y")
    assert not disk.is_directory(f"{folder}/c")
    disk.open(f"{folder}/x/y/z")
    disk.rename(f"{folder}/x", f"{folder}/w")
    assert disk.exists(f"{folder}/w/y/z")
    disk.remove_directory(f"{folder}/w")
    assert disk.names(folder) == ["c"]
    with pytest.raises(FileNotFoundError):
        disk.open(f"{folder}/gone/a")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{folder}/gone", f"{folder}/b")


def test_replace(disk, folder):
    for content in (b"old, and longer", b"new"):
        disk.replace(f"{folder}/a", content)
        assert disk.read_file(f"{folder}/a") == content
    assert disk.names(folder) == ["a"]


def test_times(disk, folder):
    disk.open(f"{folder}/a")
    disk.set_modified_ms(f"{folder}/a", 1_234_567)
    assert disk.modified_ms(f"{folder}/a") == 1_234_567


def test_a_lock_in_this_process(disk, folder):
    disk.lock(f"{folder}/.lock")
    other = RealDisk() if isinstance(disk, RealDisk) else disk
    with pytest.raises(AlreadyLocked):
        other.lock(f"{folder}/.lock")
    disk.unlock(f"{folder}/.lock")
    other.lock(f"{folder}/.lock")
    other.unlock(f"{folder}/.lock")


def test_who_came_while_a_lock_was_let_go_holds_it_against_the_next(tmp_path):
    path = f"{tmp_path}/.lock"
    disk = RealDisk()
    disk.lock(path)
    with (tmp_path / ".lock").open() as file:  # about to lock it, as the holder lets go
        disk.unlock(path)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(AlreadyLocked):
            RealDisk().lock(path)


def test_the_lock_of_a_file_that_is_gone_is_none(tmp_path, monkeypatch):
    path = f"{tmp_path}/.lock"
    real = fcntl.lockf
    found = []

    def lockf(fd: int, operation: int) -> None:
        found.append(fd)
        if len(found) == 1:
            (tmp_path / ".lock").unlink()  # as Apache's node does, which stops at this moment
        real(fd, operation)

    monkeypatch.setattr(fcntl, "lockf", lockf)
    disk = RealDisk()
    disk.lock(path)
    with pytest.raises(AlreadyLocked):
        RealDisk().lock(path)


def test_a_file_that_goes_again_and_again_is_somebody_elses(tmp_path, monkeypatch):
    path = f"{tmp_path}/.lock"
    monkeypatch.setattr(fcntl, "lockf", lambda fd, operation: (tmp_path / ".lock").unlink())
    with pytest.raises(AlreadyLocked):
        RealDisk().lock(path)


def test_usage(disk, folder):
    total, free = disk.usage(folder)
    assert 0 < free <= total


def test_a_lock_of_another_process(tmp_path):
    path = f"{tmp_path}/.lock"
    program = (
        "import sys; from tidelog.disk import RealDisk; RealDisk().lock(sys.argv[1]);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program, path], **pipes) as process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(AlreadyLocked, match="another process"):
            RealDisk().lock(path)
        process.stdin.close()
    disk = RealDisk()
    disk.lock(path)
    disk.unlock(path)


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    file = RealDisk().open(f"{tmp_path}/a")
    file.append(b"begin ")
    write = os.pwrite
    monkeypatch.setattr("os.pwrite", lambda fd, content, at: write(fd, content[:4], at))
    file.append(memoryview(b"abcdefg"))
    assert file.read(0, 99) == b"begin abcdefg"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failed_write_is_cut_back(tmp_path, monkeypatch, code):
    file = RealDisk().open(f"{tmp_path}/a")
    file.append(b"begin")
    write = os.pwrite

    def write_four_bytes_in_all(fd, content, at):
        if at > len(b"begin"):
            raise OSError(code, "no")
        return write(fd, content[:4], at)

    monkeypatch.setattr("os.pwrite", write_four_bytes_in_all)
    with pytest.raises(OSError if code == errno.EIO else DiskFull):
        file.append(b"lost bytes")
    assert os.path.getsize(f"{tmp_path}/a") == file.size == 5  # noqa: PTH202


def test_a_full_disk_is_told_now_and_then(tmp_path, monkeypatch, caplog):
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("tidelog.disk._full_disks", _FullDisks())

    def fail(fd, content, at):
        raise OSError(errno.ENOSPC, "no")

    file = RealDisk().open(f"{tmp_path}/a")
    monkeypatch.setattr("os.pwrite", fail)
    for _ in range(25):
        with pytest.raises(DiskFull):
            file.append(b"lost")
        clock[0] += 1
    said = f"the disk of {tmp_path}/a is full: no room for 4 bytes; make some"
    assert [record.getMessage() for record in caplog.records] == [said] * 3


def test_no_descriptor_outlives_its_file(tmp_path):
    disk = RealDisk()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(10):
        disk.open(f"{tmp_path}/a")
        disk.replace(f"{tmp_path}/b", b"x")
        disk.flush_directory(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
