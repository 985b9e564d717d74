"""`tidelog demo`: a node, an ordinary Kafka client and 100,000 records, in a few seconds; then a
cluster that loses its leader, and a stream of Spark's, where there is Java."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidelog.cli.demo_clients import DemoClient, Received
    from tidelog.cli.demo_node import DemoNode
    from tidelog.cli.demo_view import Row, View
    from tidelog.client import Client

TOPIC = "tides"
RECORDS = 100_000
SEGMENT_KINDS = (".log", ".index", ".timeindex", ".snapshot")


@click.command()
@click.option(
    "--records",
    metavar="N",
    type=click.IntRange(min=1),
    default=RECORDS,
    show_default=True,
    help="How many to produce and consume.",
)
@click.option(
    "--spark/--no-spark",
    default=True,
    show_default=True,
    help="Whether it ends with a stream on Spark, which needs Java.",
)
def command(records: int, spark: bool) -> None:
    """Write and read records with an ordinary Kafka client and with Spark, and kill a leader.

    Starts a node for the one and a cluster of three for the other. Needs nothing and asks nothing:
    free ports, directories that are deleted at the end.
    """
    # Here and not above: `tidelog --help` needs none of it.
    from rich.console import Console

    from tidelog import __version__
    from tidelog.cli.connect import connected
    from tidelog.cli.demo_clients import DemoFailed
    from tidelog.cli.demo_cluster import show_cluster
    from tidelog.cli.demo_node import DemoNode, NodeFailed
    from tidelog.cli.demo_view import View

    console = Console(highlight=False)
    console.rule(f"[bold]Tidelog {__version__}[/]: one node, one topic, {records:,} records")
    began = time.perf_counter()
    try:
        with DemoNode() as node, connected(node.bootstrap_servers) as client:
            view = View(console)
            ready_s = time.perf_counter() - began
            view.done(f"a node serves at {node.bootstrap_servers}, {ready_s:.1f} s after the start")
            show(view, node, client, records)
            show_cluster(view, records, choose_client)
            if spark:
                from tidelog.cli.demo_spark import show_spark

                show_spark(view, node)
    except (DemoFailed, NodeFailed) as error:
        raise click.ClickException(str(error)) from None
    console.print(
        f"Done and cleaned up after {time.perf_counter() - began:.1f} s. "
        "For one that stays: `tidelog up`."
    )


def show(view: View, node: DemoNode, client: Client, count: int) -> None:
    """Everything that is shown of a running node."""
    from tidelog.cli.demo_clients import PARTITIONS, TOPIC_CONFIGS, Received
    from tidelog.cli.demo_offsets import ask_offsets, require_count
    from tidelog.cli.demo_view import offset_table
    from tidelog.client.cluster import TopicPartition
    from tidelog.client.offsets import delete_records

    places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    received = Received(count)

    def ask() -> list[Row]:
        offsets = zip(places, ask_offsets(client, places), strict=True)
        return [
            (str(place), *three, received.position(place.partition)) for place, three in offsets
        ]

    kafka = choose_client(node.bootstrap_servers, client)
    view.done(f"the client: {kafka.name}")
    kafka.create_topic(TOPIC)
    configs = ", ".join(f"{name}={value}" for name, value in TOPIC_CONFIGS.items())
    view.done(f"topic {TOPIC}: {PARTITIONS} partitions, {configs}")
    produced_s = view.follow("produce", kafka.produce(TOPIC, count), count, ask)
    consumed_s = view.follow("consume", kafka.consume(TOPIC, received, count), count, ask)
    require_count(client, TOPIC, count)
    view.done("every record came back once, unchanged, in the order of its partition")
    summarize(view, node, received, produced_s, consumed_s)
    client.run(delete_records, {place: received.position(place.partition) // 2 for place in places})
    view.done("DeleteRecords of the older half: the logs begin later now")
    view.console.print(offset_table(ask()))


def choose_client(bootstrap_servers: str, client: Client) -> DemoClient:
    """Somebody else's if there is one: that is what shows that it is Kafka's protocol."""
    from tidelog.cli.demo_clients import LibrdkafkaClient, OwnClient

    try:
        return LibrdkafkaClient(bootstrap_servers)
    except ImportError:
        return OwnClient(client)


def summarize(
    view: View, node: DemoNode, received: Received, produced_s: float, consumed_s: float
) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 3, 0, 0), show_header=False)
    table.add_column(style="bold")
    for verb, seconds in (("produced", produced_s), ("consumed", consumed_s)):
        table.add_row(
            verb,
            f"{received.records:,} records of {received.bytes / received.records:.0f} B "
            f"in {seconds:.2f} s: {received.records / seconds:,.0f}/s, "
            f"{received.bytes / seconds / 1e6:.1f} MB/s",
        )
    files = node.files(TOPIC)
    size = sum(size for kind in files.values() for size in kind)
    table.add_row("on disk", f"{size / 1e6:.1f} MB, in Apache Kafka's own files")
    kinds = [f"{len(files.pop(kind))} {kind}" for kind in SEGMENT_KINDS if kind in files]
    others = sum(map(len, files.values()))
    table.add_row("files", f"{', '.join(kinds)}, {others} others")
    view.console.print(table)
