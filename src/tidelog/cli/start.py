"""`tidelog start`: one node, configured as Kafka's server.properties does it."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.properties import parse_assignments, read_properties, warn_of_unused

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig


@click.command("start")
@click.argument(
    "properties", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE"
)
@click.option(
    "--override",
    metavar="NAME=VALUE",
    multiple=True,
    help="A property to use instead of the file's; may be repeated.",
)
def command(properties: Path, override: tuple[str, ...]) -> None:
    """Start one node as FILE, a server.properties of Kafka, configures it.

    An empty log directory is formatted. The node runs until Ctrl-C or SIGTERM, and then
    finishes what it has begun.
    """
    gc.disable()  # what a start makes stays; run() switches the collector on
    config = configure(properties, override)
    warn_of_unused(config)
    from tidelog.server.run import run

    sys.exit(run(config))


def configure(path: Path, override: tuple[str, ...]) -> BrokerConfig:
    """The node's configuration; a mistake in it ends the command with one line."""
    import socket

    from tidelog.config.broker import BrokerConfig
    from tidelog.config.definition import InvalidConfig

    given = read_properties(path) | parse_assignments(override)
    try:
        return BrokerConfig.from_properties(given, host_name=socket.gethostname())
    except InvalidConfig as error:
        raise click.ClickException(f"{path}: {error}") from None
