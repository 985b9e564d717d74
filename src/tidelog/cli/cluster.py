"""`tidelog cluster`: the cluster's id and endpoints, as kafka-cluster shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tidelog.cli.connect import (
    Connection,
    connected,
    controller_options,
    deprecated_config_option,
)
from tidelog.cli.subcommands import ConnectedGroup

if TYPE_CHECKING:
    from tidelog.client.admin import DescribedBroker

WIDTHS = {"id": 10, "host": 4, "port": 10, "rack": 10, "state": 10, "endpoint_type": 15}
"""Of the columns, at least; a long host or rack makes room for itself."""
DEPRECATED_CONFIG = deprecated_config_option("--config")


@click.group("cluster", cls=ConnectedGroup)
def command() -> None:
    """Show the cluster's id and its brokers, or forget a broker that is gone."""


@command.command("cluster-id")
@controller_options
@DEPRECATED_CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def cluster_id(connection: Connection, as_json: bool) -> None:
    """Print the cluster's id."""
    from tidelog.client.admin import describe_cluster

    with connected(*connection) as client:
        found = client.run(describe_cluster).cluster_id
    click.echo(json.dumps({"cluster_id": found}) if as_json else f"Cluster ID: {found}")


@command.command("unregister")
@controller_options
@DEPRECATED_CONFIG
@click.option("--id", "-i", "broker_id", metavar="N", type=int, required=True, help="The broker.")
def unregister(connection: Connection, broker_id: int) -> None:
    """Forget a broker that does not come back.

    Move its partitions away first (`tidelog reassign`). A broker that lives registers again.
    """
    from tidelog.client.admin import unregister_broker

    with connected(*connection) as client:
        client.run(unregister_broker, broker_id)
    click.echo(f"Broker {broker_id} is no longer registered.")


@command.command("list-endpoints")
@controller_options
@DEPRECATED_CONFIG
@click.option(
    "--include-fenced-brokers", is_flag=True, help="Also those that are down or starting."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def list_endpoints(connection: Connection, include_fenced_brokers: bool, as_json: bool) -> None:
    """Show the brokers, or the controllers if one of them is asked, and where they listen."""
    from tidelog.client.admin import describe_cluster

    if connection.are_controllers and include_fenced_brokers:
        raise click.UsageError("--include-fenced-brokers goes with --bootstrap-server")
    with connected(*connection) as client:
        everyone = client.run(describe_cluster).brokers
    nodes = [one for one in everyone if include_fenced_brokers or not one.is_fenced]
    rows = [_row(one, connection.are_controllers) for one in nodes]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    columns = [name for name in WIDTHS if not (connection.are_controllers and name == "state")]
    table = [[_cell(row[name]) for name in columns] for row in rows]
    widths = [
        max([WIDTHS[name], *(len(line[index]) for line in table)])
        for index, name in enumerate(columns)
    ]
    for line in ([name.upper() for name in columns], *table):
        click.echo(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def _row(one: DescribedBroker, is_controller: bool) -> dict[str, object]:
    row: dict[str, object] = {
        "id": one.node_id,
        "host": one.address.host,
        "port": one.address.port,
        "rack": one.rack,
    }
    if not is_controller:
        row["state"] = "fenced" if one.is_fenced else "unfenced"
    row["endpoint_type"] = "controller" if is_controller else "broker"
    return row


def _cell(value: object) -> str:
    return "null" if value is None else str(value)
