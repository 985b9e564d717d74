"""`tidelog repair-log`: checks the log of a partition, and cuts a damaged one on purpose."""

from __future__ import annotations

import os
import time
from contextlib import closing

import click

from tidelog.cli.progress import Progress
from tidelog.disk import RealDisk
from tidelog.env import AlreadyLocked, Now
from tidelog.log.log_dir import LOCK
from tidelog.log.names import parse_directory_name
from tidelog.log.repair import cut, find_damage


@click.command("repair-log")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option("--cut", "wants_cut", is_flag=True, help="Remove the bad batch and all after it.")
def command(directory: str, wants_cut: bool) -> None:
    """Check every batch of a partition's DIRECTORY, such as data/tides-0.

    A partition with a bad batch that sound ones follow stays offline until it is cut, or until its
    directory is moved away so that its replicas fill it again. The node must be stopped. The exit
    code is 1 if there is damage and it was not cut.
    """
    path = os.path.abspath(directory)  # noqa: PTH100
    parent, _, name = path.rpartition("/")
    if parse_directory_name(name) is None:
        raise click.ClickException(f"{directory} is no partition's directory: want TOPIC-NUMBER")
    disk = RealDisk()
    lock = f"{parent}/{LOCK}"
    try:
        disk.lock(lock)
    except AlreadyLocked as error:
        raise click.ClickException(f"a node runs on {parent}: stop it first") from error
    try:
        with closing(Progress("checked")) as progress:
            damage = find_damage(disk, path, progress.show_bytes)
        if damage is None:
            click.echo(f"{directory}: every batch is sound")
            return
        click.echo(str(damage), err=True)
        if not wants_cut:
            click.echo("nothing was changed; --cut removes it and all that follows", err=True)
            raise click.exceptions.Exit(1)
        now = Now(time.monotonic_ns() // 10**6, time.time_ns() // 10**6)
        with closing(Progress("recovered")) as progress:
            done = cut(disk, path, now, progress.show_bytes)
        click.echo(
            f"{directory}: cut {done.bytes_removed} bytes, "
            f"offsets {done.log_start_offset} to {done.log_end_offset} are left"
        )
    finally:
        disk.unlock(lock)
