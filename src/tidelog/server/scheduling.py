"""The kernel's scheduler: who works for moments only is to be woken in a moment."""

from __future__ import annotations

import os
import platform
import struct

SLICE_NS = 100_000
"""A step takes about as long, and Linux lets a process with a short slice go before those with
longer ones, which run for 1.4 to 3 ms at a time. The share of a core that each gets stays the
same."""
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""The system call, which Python does not offer, by machine."""
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""Size, policy, flags, nice, priority, runtime, deadline, period."""


def shorten_slices() -> bool:
    """Of this process and all that it starts, if Linux can do so (6.12 can) and nobody has chosen
    another way of scheduling for it."""
    number = SCHED_SETATTR.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    import ctypes  # a start without it is 2 ms shorter

    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    return bool(ctypes.CDLL(None).syscall(number, 0, wanted, 0) == 0)
