"""`tidelog repair-log`: cut a damaged partition on purpose."""

from __future__ import annotations

import time
from pathlib import Path

import click

LOCK = ".lock"


@click.command("repair-log")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--cut", is_flag=True, help="Cut the log at the first bad batch. What follows goes.")
def command(directory: Path, cut: bool) -> None:
    """Check every batch of the partition in DIRECTORY (such as data/orders-0).

    A node keeps a partition offline if sound batches follow a bad one: then no crash explains the
    damage, and what to give up is for a person to decide. Without --cut nothing is changed, and
    the exit code is 1 if there is damage. Stop the node first.
    """
    from tidelog.disk import RealDisk
    from tidelog.env import AlreadyLocked, Now
    from tidelog.log.config import LogConfig
    from tidelog.log.names import parse_directory_name
    from tidelog.log.repair import repair

    if parse_directory_name(directory.resolve().name) is None:
        raise click.ClickException(f"{directory} is no partition's directory: want TOPIC-NUMBER")
    disk = RealDisk()
    lock = f"{directory.resolve().parent}/{LOCK}"
    try:
        disk.lock(lock)
    except AlreadyLocked:
        raise click.ClickException(f"a node runs on {directory.parent}: stop it first") from None
    try:
        now = Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)
        result = repair(disk, str(directory), LogConfig(), now, is_dry_run=not cut)
    finally:
        disk.unlock(lock)
    if result.damage is None:
        click.echo(
            f"{directory} is sound: offsets {result.log_start_offset} to "
            f"{result.log_end_offset - 1}"
        )
        return
    if not cut:
        click.echo(f"{result.damage}\nrun with --cut to give up what follows", err=True)
        raise SystemExit(1)
    click.echo(
        f"cut {result.bytes_removed} bytes; left are the offsets {result.log_start_offset} to "
        f"{result.log_end_offset - 1}"
    )
