"""Replicas as they lie on disk: a partition is the same bytes on every node, and in them every
batch of a producer is there once, in its turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tidelog.log.names import LOG
from tidelog.wire.batch import BatchWalk

POLL_SECONDS = 0.1


def content(folder: Path) -> bytes:
    """A log from its first byte to its last. Where segments end is a replica's own affair."""
    segments = sorted(folder.glob(f"*{LOG}"))
    if not segments:
        raise FileNotFoundError(f"there is no log in {folder}")
    return b"".join(path.read_bytes() for path in segments)


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


def differences(
    directories: Sequence[Path], topic: str, partitions: int, seconds_max: float
) -> list[str]:
    """Of a topic on nodes that nobody writes to, after what is still under way."""
    deadline = time.monotonic() + seconds_max
    found = []
    for index in range(partitions):
        folders = [directory / f"{topic}-{index}" for directory in directories]
        while (differs := difference(folders)) is not None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if differs is not None:
            found.append(differs)
    return found


def out_of_turn(directory: Path, topic: str, partitions: int) -> list[str]:
    """Batches of a whole log whose sequence is not the one behind the producer's batch before."""
    found = []
    for index in range(partitions):
        folder = directory / f"{topic}-{index}"
        due: dict[tuple[int, int], int] = {}
        for batch in BatchWalk(memoryview(content(folder))):
            producer = batch.producer_id, batch.producer_epoch
            if batch.base_sequence != due.get(producer, 0):
                found.append(
                    f"{folder.name}: at {batch.base_offset} producer {producer[0]}, epoch"
                    f" {producer[1]}, has sequence {batch.base_sequence}, not"
                    f" {due.get(producer, 0)}"
                )
            due[producer] = batch.base_sequence + batch.last_offset_delta + 1
    return found
