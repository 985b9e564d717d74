"""Replicas as they lie on disk: a partition is the same bytes on every node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tidelog.log.names import LOG

POLL_SECONDS = 0.1


def content(folder: Path) -> bytes:
    """A log from its first byte to its last. Where segments end is a replica's own affair."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob(f"*{LOG}")))


def difference(folders: Sequence[Path]) -> str | None:
    """Where replicas of a partition differ, in words."""
    first, *others = folders
    expected = content(first)
    for other in others:
        found = content(other)
        if found != expected:
            shorter = min(len(found), len(expected))
            at = next((i for i in range(shorter) if found[i] != expected[i]), shorter)
            return (
                f"{first} ({len(expected)} bytes) and {other} ({len(found)} bytes) differ at {at}"
            )
    return None


def differences(directories: Sequence[Path], topic: str, seconds_max: float) -> list[str]:
    """Of a topic on nodes that nobody writes to, after what is still under way."""
    names = sorted({path.name for one in directories for path in one.glob(f"{topic}-*")})
    deadline = time.monotonic() + seconds_max
    found = []
    for name in names:
        folders = [directory / name for directory in directories]
        while (differs := difference(folders)) is not None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if differs is not None:
            found.append(differs)
    return found
