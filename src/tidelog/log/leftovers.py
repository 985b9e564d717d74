"""What an interrupted deletion or compaction left in a partition's directory: finished or undone
before the log is loaded."""

from __future__ import annotations

from tidelog.env import Disk
from tidelog.log.names import CLEANED, DELETED, LOG, SWAP, OffsetFile, parse_file_name
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk


def clear_leftovers(disk: Disk, directory: str) -> None:
    """Afterwards no file has a suffix, and the records are those of before or after a swap."""
    files = _offset_files(disk, directory)
    cleaned = [file.offset for file in files.values() if file.state == CLEANED]
    for name, file in files.items():
        # A swap whose cleaned files are not all renamed has not begun: the old segments stand.
        undone = file.state == SWAP and cleaned and file.offset >= min(cleaned)
        if file.state in (DELETED, CLEANED) or undone:
            disk.remove(f"{directory}/{name}")
    _finish_swaps(disk, directory)


def _finish_swaps(disk: Disk, directory: str) -> None:
    files = _offset_files(disk, directory)
    swaps = {name: file for name, file in files.items() if file.state == SWAP}
    logs = {name: file.offset for name, file in swaps.items() if file.kind == LOG}
    if logs:
        start = min(logs.values())
        end = max(_next_offset(disk, f"{directory}/{name}", base) for name, base in logs.items())
        for name, file in files.items():
            if not file.state and start <= file.offset < end:
                disk.remove(f"{directory}/{name}")
    for name in swaps:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    if swaps:
        disk.flush_directory(directory)


def _next_offset(disk: Disk, path: str, base_offset: Offset) -> Offset:
    walk = BatchWalk(disk.read_file(path) or b"", next_offset_min=base_offset, check_crc=False)
    for _ in walk:
        pass
    return max(walk.next_offset, base_offset + 1)


def _offset_files(disk: Disk, directory: str) -> dict[str, OffsetFile]:
    parsed = {name: parse_file_name(name) for name in disk.names(directory)}
    return {name: file for name, file in parsed.items() if file is not None}
