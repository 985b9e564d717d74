"""`tidelog quorum`: the controllers' quorum, as kafka-metadata-quorum shows and changes it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.connect import (
    BOOTSTRAP_OPTION,
    CONTROLLER_OPTION,
    Connection,
    choose,
    connected,
    controller_options,
)
from tidelog.cli.subcommands import ConnectedGroup

if TYPE_CHECKING:
    from tidelog.client.quorum import VoterEndpoint
    from tidelog.types import Uuid


@click.group("quorum", cls=ConnectedGroup)
def command() -> None:
    """Show the quorum of controllers, add one or remove one."""


@command.command("describe")
@controller_options
@click.option("--status", "view", flag_value="status", help="Who leads, who votes, who lags.")
@click.option("--replication", "view", flag_value="replication", help="How far each node is.")
@click.option("--human-readable", is_flag=True, help="With --replication: times as 'so long ago'.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def describe(connection: Connection, view: str | None, human_readable: bool, as_json: bool) -> None:
    """Show who leads, who votes and how far everybody is."""
    if view is None and not as_json:
        raise click.UsageError("say what to show: --status or --replication")
    from tidelog.cli import quorum_view
    from tidelog.client.quorum import describe_quorum

    with connected(*connection) as client:
        quorum = client.run(describe_quorum)
    if as_json:
        click.echo(quorum_view.as_json(quorum))
    elif view == "status":
        click.echo(quorum_view.status(quorum))
    else:
        now_ms = round(time.time() * 1000) if human_readable else None
        click.echo(quorum_view.replication(quorum, now_ms))


@command.command("add-controller")
@BOOTSTRAP_OPTION
@CONTROLLER_OPTION
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The server.properties of the controller to add; its directory must be formatted.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def add_controller(
    bootstrap_server: str, bootstrap_controller: str | None, command_config: Path, dry_run: bool
) -> None:
    """Let a controller vote that runs and observes the quorum.

    It was formatted with `tidelog format --no-initial-controllers`.
    """
    from tidelog.client.quorum import add_raft_voter

    connection = choose(Connection(bootstrap_server, {}), bootstrap_controller)
    node_id, cluster_id, directory_id, endpoints = _described(command_config)
    if not dry_run:
        with connected(*connection) as client:
            client.run(add_raft_voter, node_id, directory_id, endpoints, cluster_id=cluster_id)
    from tidelog.types import format_uuid

    click.echo(
        f"{'DRY RUN of adding' if dry_run else 'Added'} controller {node_id} with directory id"
        f" {format_uuid(directory_id)} and endpoints: {', '.join(map(str, endpoints))}"
    )


def _described(properties: Path) -> tuple[int, str, Uuid, list[VoterEndpoint]]:
    """A controller's id, cluster, directory and addresses, of its file and of its directory."""
    from tidelog.cli.start import configure
    from tidelog.client.quorum import VoterEndpoint
    from tidelog.disk import RealDisk
    from tidelog.log.checkpoint import MalformedFile
    from tidelog.log.log_dir import LogDir

    config = configure(properties, ())
    if not config.is_controller:
        raise click.ClickException(f"{properties}: process.roles lacks controller")
    try:
        known = LogDir(RealDisk(), config.metadata_dir).read_meta_properties()
    except MalformedFile as error:
        raise click.ClickException(str(error)) from None
    if known is None:
        raise click.ClickException(
            f"{config.metadata_dir} is not formatted: use `tidelog format --cluster-id ID"
            f" --no-initial-controllers {properties}`"
        )
    endpoints = [VoterEndpoint(one.name, one.host, one.port) for one in config.controller_endpoints]
    return config.node_id, known.cluster_id, known.directory_id, endpoints


@command.command("remove-controller")
@controller_options
@click.option("--controller-id", "-i", metavar="N", type=int, required=True, help="The controller.")
@click.option(
    "--controller-directory-id",
    "-d",
    metavar="ID",
    required=True,
    help="Its directory.id, as `tidelog quorum describe --replication` shows it.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def remove_controller(
    connection: Connection, controller_id: int, controller_directory_id: str, dry_run: bool
) -> None:
    """Let a controller vote no longer; it may be down."""
    from tidelog.client.quorum import remove_raft_voter
    from tidelog.types import parse_uuid

    try:
        directory_id = parse_uuid(controller_directory_id)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--controller-directory-id") from None
    if not dry_run:
        with connected(*connection) as client:
            client.run(remove_raft_voter, controller_id, directory_id)
    click.echo(
        f"{'DRY RUN of removing' if dry_run else 'Removed'} KRaft controller {controller_id} with"
        f" directory id {controller_directory_id}"
    )
