"""`tidelog cluster`: the cluster's id and endpoints, as kafka-cluster shows them."""

from __future__ import annotations

import json

import click

from tidelog.cli.connect import Connection, connected, connection_options
from tidelog.cli.subcommands import ConnectedGroup

TITLES = ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
WIDTHS = (10, 4, 10, 10, 10, 15)
"""At least; a long host or rack makes room for itself."""


@click.group("cluster", cls=ConnectedGroup)
def command() -> None:
    """Show the cluster's id and its brokers, or forget a broker that is gone."""


@command.command("cluster-id")
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def cluster_id(connection: Connection, as_json: bool) -> None:
    """Print the cluster's id."""
    from tidelog.client.admin import describe_cluster

    with connected(*connection) as client:
        found = client.run(describe_cluster).cluster_id
    click.echo(json.dumps({"cluster_id": found}) if as_json else f"Cluster ID: {found}")


@command.command("unregister")
@connection_options
@click.option("--id", "broker_id", metavar="N", type=int, required=True, help="The broker.")
def unregister(connection: Connection, broker_id: int) -> None:
    """Forget a broker that does not come back.

    Move its partitions away first (`tidelog reassign`). A broker that lives registers again.
    """
    from tidelog.client.admin import unregister_broker

    with connected(*connection) as client:
        client.run(unregister_broker, broker_id)
    click.echo(f"Broker {broker_id} is no longer registered.")


@command.command("list-endpoints")
@connection_options
@click.option(
    "--include-fenced-brokers", is_flag=True, help="Also those that are down or starting."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def list_endpoints(connection: Connection, include_fenced_brokers: bool, as_json: bool) -> None:
    """Show the brokers and where they listen."""
    from tidelog.client.admin import describe_cluster

    with connected(*connection) as client:
        everyone = client.run(describe_cluster).brokers
    brokers = [one for one in everyone if include_fenced_brokers or not one.is_fenced]
    if as_json:
        listed = [
            {
                "id": one.node_id,
                "host": one.address.host,
                "port": one.address.port,
                "rack": one.rack,
                "state": _state(one.is_fenced),
                "endpoint_type": "broker",
            }
            for one in brokers
        ]
        click.echo(json.dumps(listed, indent=2))
        return
    rows = [
        (
            str(one.node_id),
            one.address.host,
            str(one.address.port),
            one.rack or "null",
            _state(one.is_fenced),
            "broker",
        )
        for one in brokers
    ]
    columns = zip(TITLES, *rows, strict=True)
    widths = [
        max(least, *(len(cell) for cell in column[1:])) if rows else least
        for least, column in zip(WIDTHS, columns, strict=True)
    ]
    for row in (TITLES, *rows):
        click.echo(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _state(is_fenced: bool) -> str:
    return "fenced" if is_fenced else "unfenced"
