"""`tidelog up`: a local cluster, each node a child process."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from tidelog.cli.properties import parse_assignments, warn_of_unused

NODES_MAX = 100
"""Each is a process and two ports."""


@click.command("up")
@click.option(
    "--nodes",
    metavar="N",
    type=click.IntRange(1, NODES_MAX),
    default=1,
    show_default=True,
    help="How many nodes; each is a broker and a controller.",
)
@click.option(
    "--port",
    metavar="P",
    type=click.IntRange(1, 65535),
    default=9092,
    show_default=True,
    help="The first broker's port; brokers use P to P+N-1, controllers P+N to P+2N-1.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tidelog-data"),
    show_default=True,
    help="Where the nodes keep their logs. A missing or empty directory is formatted, "
    "an existing one is started again.",
)
@click.option(
    "--config",
    metavar="KEY=VALUE",
    multiple=True,
    help="A broker config for every node, under Kafka's name; may be repeated.",
)
@click.option(
    "--racks",
    metavar="RACK,...",
    help="Where the nodes stand, in turn. Replicas are spread over the racks, and a consumer with "
    "client.rack reads from a replica in its own.",
)
def command(
    nodes: int, port: int, data_dir: Path, config: tuple[str, ...], racks: str | None
) -> None:
    """Start a local cluster, and run it until Ctrl-C.

    Prints one line with the bootstrap address when every broker serves. The nodes end with this
    command. Each one's log is NODE.log in the data directory.
    """
    from tidelog.cli.local_cluster import CannotStart, LocalCluster

    try:
        names = [] if racks is None else racks.split(",")
        cluster = LocalCluster(nodes, port, data_dir, parse_assignments(config), names)
        warn_of_unused(cluster.nodes[0].config)
        sys.exit(cluster.run(click.echo, partial(click.echo, err=True)))
    except CannotStart as error:
        raise click.ClickException(str(error)) from None
