"""A node as a child process of the one that imported it: it starts in a moment, and dies with its
parent, however that dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_parent(number: int, parent: int) -> None:
    """Get this signal when the parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before we could ask to be told
        os._exit(1)


def with_parent(number: int = signal.SIGKILL) -> Callable[[], None]:
    """For `preexec_fn` of a subprocess: it dies with the process that starts it."""
    return partial(die_with_parent, number, os.getpid())


def fork(run: Callable[[], int], log: Path, *, orphaned: signal.Signals = signal.SIGTERM) -> int:
    """The child's process id; what it prints goes to the log. The child itself never returns.

    `orphaned` is what it gets when its parent ends. One that stands still heeds SIGKILL only.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    process_id = os.fork()
    if process_id:
        return process_id
    code = 1
    try:
        die_with_parent(orphaned, parent)
        # Ctrl-C reaches the whole group; the parent passes it on, as SIGTERM, once.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        code = run()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
