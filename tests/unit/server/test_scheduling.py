"""A node's slices, as the kernel knows them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tidelog.server.scheduling import ATTRIBUTES, SCHED_SETATTR, SLICE_NS, shorten_slices

pytestmark = pytest.mark.skipif(
    platform.machine() not in SCHED_SETATTR, reason="the system call's number is not known"
)
NUMBER = SCHED_SETATTR.get(platform.machine(), 0) + 1
"""Of sched_getattr."""
LINUX = tuple(int(part) for part in platform.release().split(".")[:2])
ASKED = f"""
import ctypes, os, struct, threading
from tidelog.server.scheduling import shorten_slices

def show():
    found = ctypes.create_string_buffer(64)
    assert ctypes.CDLL(None).syscall({NUMBER}, 0, found, 64, 0) == 0
    _, policy, _, nice, _, runtime, _, _ = struct.unpack_from("{ATTRIBUTES.format}", found)
    print(policy, nice, runtime)

os.nice(5)
assert shorten_slices()
show()
thread = threading.Thread(target=show)
thread.start()
thread.join()
"""


def test_threads_of_a_node_have_short_slices_and_their_nice_value() -> None:
    shown = subprocess.check_output([sys.executable, "-c", ASKED], text=True).splitlines()
    slice_ns = SLICE_NS if LINUX >= (6, 12) else 0
    assert shown == [f"{os.SCHED_OTHER} {os.nice(0) + 5} {slice_ns}"] * 2


def test_another_way_of_scheduling_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: os.SCHED_BATCH)
    assert not shorten_slices()


def test_a_machine_whose_system_calls_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not shorten_slices()
