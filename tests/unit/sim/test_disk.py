"""What a simulated crash keeps and loses, and what a test may inject."""

from __future__ import annotations

import errno

import pytest

from tidelog.env import DiskFull
from tidelog.sim.disk import SECTOR_BYTES, Crashed, SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.flush_directory("d")
    return disk


def test_unsynced_bytes_are_lost(disk):
    file = disk.open("d/a")
    file.append(b"kept")
    file.flush()
    disk.flush_directory("d")
    file.append(b" lost")
    assert disk.crash().read_file("d/a") == b"kept"
    assert disk.crash(lambda path, unsynced: 3).read_file("d/a") == b"kept lo"
    assert disk.copy().read_file("d/a") == b"kept lost"


def test_lost_bytes_may_read_as_zeros_from_a_sector_on(disk):
    file = disk.open("d/a")
    file.append(b"x" * (2 * SECTOR_BYTES))
    disk.flush_directory("d")
    after = disk.crash(lambda path, unsynced: SECTOR_BYTES + 9, zeros=lambda path, lost: lost)
    content = after.read_file("d/a")
    assert content == b"x" * SECTOR_BYTES + bytes(SECTOR_BYTES - 9)


def test_a_truncation_that_was_not_flushed_may_be_undone(disk):
    file = disk.open("d/a")
    file.append(b"old content")
    file.flush()
    disk.flush_directory("d")
    file.truncate(4)
    assert disk.crash().read_file("d/a") == b"old content"
    assert disk.crash(keep_cuts=True).read_file("d/a") == b"old "
    file.append(b"new")
    assert disk.crash().read_file("d/a") == b"old content"
    assert disk.crash(lambda path, n: 2).read_file("d/a") == b"old ne"
    file.flush()
    assert disk.crash().read_file("d/a") == b"old new"


def test_names_are_lost_from_the_last_change_on(disk):
    disk.open("d/a").flush()
    disk.flush_directory("d")
    disk.rename("d/a", "d/b")
    disk.open("d/c")
    disk.remove("d/b")
    expected = [["a"], ["b"], ["b", "c"], ["c"]]
    for kept, names in enumerate(expected):
        assert disk.crash(keep_names=lambda changes, kept=kept: kept).names("d") == names
    assert disk.crash(keep_names=lambda changes: changes).names("d") == ["c"]


def test_a_crash_at_a_call(disk):
    file = disk.open("d/a")
    disk.crash_at, disk.torn_bytes = disk.operations + 1, 2
    file.append(b"whole")
    with pytest.raises(Crashed):
        file.append(b"torn")
    with pytest.raises(Crashed):
        file.flush()
    assert disk.copy().read_file("d/a") == b"wholeto"


def test_a_full_disk_and_other_faults():
    disk = SimulatedDisk(capacity_bytes=10)
    file = disk.open("a")
    file.append(b"12345678")
    with pytest.raises(DiskFull):
        file.append(b"abc")
    assert file.size == 8
    file.append(b"ab")
    disk.fault = lambda operation, path: OSError(errno.EIO, operation) if path == "a" else None
    for call in (lambda: file.append(b""), file.flush, lambda: file.read(0, 1)):
        with pytest.raises(OSError, match=r"append|flush|read"):
            call()
    disk.open("b").flush()
