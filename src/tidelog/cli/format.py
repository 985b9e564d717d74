"""`tidelog format`: makes a node's directories a cluster's, as kafka-storage format does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.start import configure

if TYPE_CHECKING:
    from tidelog.broker.formatting import Formatted
    from tidelog.config.broker import BrokerConfig
    from tidelog.wire.messages.control_records import Voter


@click.command("format")
@click.argument(
    "properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    required=False,
)
@click.option("--cluster-id", "-t", metavar="ID", help="The cluster's: the same on every node.")
@click.option(
    "--standalone", "-s", is_flag=True, help="This controller alone begins a dynamic quorum."
)
@click.option(
    "--initial-controllers",
    "-I",
    metavar="ID@HOST:PORT:DIRECTORY,...",
    help="These begin a dynamic quorum: the same list on each of them.",
)
@click.option(
    "--no-initial-controllers",
    "-N",
    is_flag=True,
    help="The quorum exists: this controller joins it later (`tidelog quorum add-controller`).",
)
@click.option(
    "--ignore-formatted", "-g", is_flag=True, help="Leave directories as they are that are done."
)
@click.option("--random-uuid", is_flag=True, help="Print a new id, for a cluster or a directory.")
def command(
    properties: Path | None,
    cluster_id: str | None,
    random_uuid: bool,
    **how: object,
) -> None:
    """Format the directories of the node that FILE, a server.properties, configures.

    A node that is a cluster alone does this itself when it starts. Nodes of larger clusters are
    formatted with the same --cluster-id first:

    \b
    tidelog format --cluster-id $(tidelog format --random-uuid) server.properties

    Where controller.quorum.voters names the controllers, that is all. Where it does not
    (a dynamic quorum), a controller also needs --standalone, --initial-controllers or
    --no-initial-controllers.
    """
    if random_uuid:
        from tidelog.metadata.format import random_uuid as new_uuid
        from tidelog.types import format_uuid

        click.echo(format_uuid(new_uuid(random.SystemRandom())))
        return
    if properties is None or cluster_id is None:
        raise click.UsageError("want --cluster-id ID and FILE; --random-uuid prints a new ID")
    _format(configure(properties, ()), cluster_id, **how)  # type: ignore[arg-type]


def _format(
    config: BrokerConfig,
    cluster_id: str,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    ignore_formatted: bool,
) -> None:
    from tidelog.broker.formatting import CannotFormat, format_node
    from tidelog.disk import RealDisk
    from tidelog.server.shell import now

    _check(config, standalone, initial_controllers, no_initial_controllers)
    rng = random.SystemRandom()
    try:
        done = format_node(
            config,
            RealDisk(),
            rng,
            now(),
            cluster_id,
            _voters(config, standalone, initial_controllers, rng),
            ignore_formatted=ignore_formatted,
        )
    except CannotFormat as error:
        raise click.ClickException(str(error)) from None
    for one in done:
        click.echo(_said(one))
    if not done:
        click.echo("All of the log directories are already formatted.")


def _check(
    config: BrokerConfig,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
) -> None:
    """What goes together; the words are Kafka's where it has any."""
    chosen = [standalone, initial_controllers is not None, no_initial_controllers]
    if sum(chosen) > 1:
        raise click.UsageError(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other"
        )
    if config.voters and (standalone or initial_controllers is not None):
        raise click.ClickException(
            "You cannot specify controller.quorum.voters and format the node with"
            " --initial-controllers or --standalone. If you want to use dynamic quorum, please"
            " remove controller.quorum.voters and specify controller.quorum.bootstrap.servers"
            " instead."
        )
    if standalone and not config.is_controller:
        raise click.ClickException("You can only use --standalone on a controller.")
    if config.is_controller and not config.voters and not any(chosen):
        raise click.ClickException(
            "Because controller.quorum.voters is not set on this controller, you must specify one"
            " of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )


def _voters(
    config: BrokerConfig,
    standalone: bool,
    initial_controllers: str | None,
    rng: random.SystemRandom,
) -> tuple[Voter, ...]:
    from tidelog.broker.formatting import own_voter, parse_initial_controllers
    from tidelog.metadata.format import random_uuid

    if standalone:
        return (own_voter(config, random_uuid(rng)),)
    if initial_controllers is not None:
        return parse_initial_controllers(initial_controllers, config)
    return ()


def _said(one: Formatted) -> str:
    """Kafka's line."""
    from tidelog.metadata.features import METADATA_RELEASE

    kind = "metadata" if one.is_metadata else "data"
    if one.has_voters:
        kind = "dynamic metadata voter" if one.is_voter else "dynamic metadata"
    return f"Formatting {kind} directory {one.path} with metadata.version {METADATA_RELEASE}."
