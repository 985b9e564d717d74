"""Cuts a damaged partition on purpose: what Apache Kafka does to it unasked at every start."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.env import Disk, Now
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.names import LOG, parse_file_name
from tidelog.log.recovery import load
from tidelog.log.results import DamagedSegment
from tidelog.types import Offset


class Repaired(NamedTuple):
    """What is left, and what it cost."""

    damage: DamagedSegment | None
    """None: there was nothing to repair, and nothing was cut."""
    log_start_offset: Offset
    log_end_offset: Offset
    bytes_removed: int


def repair(disk: Disk, path: str, config: LogConfig, now: Now, *, is_dry_run: bool) -> Repaired:
    """Check every batch of the partition in this directory; unless it is a dry run, cut the log
    at the first bad one and rebuild what is derived. No node may run on the directory."""
    before = _log_bytes(disk, path)
    damage = None
    try:
        log = _load(disk, path, config, now, cut_damage=False)
    except DamagedSegment as error:
        damage = error
        if is_dry_run:
            return Repaired(damage, -1, -1, 0)
        log = _load(disk, path, config, now, cut_damage=True)
    log.close(now)
    removed = before - _log_bytes(disk, path)
    return Repaired(damage, log.log_start_offset, log.log_end_offset, removed)


def _load(disk: Disk, path: str, config: LogConfig, now: Now, *, cut_damage: bool) -> Log:
    return load(
        disk,
        path,
        config,
        is_clean=False,
        recovery_point=0,
        log_start_offset=0,
        now=now,
        cut_damage=cut_damage,
    )


def _log_bytes(disk: Disk, path: str) -> int:
    total = 0
    for name in disk.names(path):
        file = parse_file_name(name)
        if file is not None and file.kind == LOG and not file.state:
            total += disk.size(f"{path}/{name}") or 0
    return total
