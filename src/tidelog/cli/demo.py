"""`tidelog demo`: what works today, shown on this machine in a few seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from tidelog.cli.demo_messages import Trip

RIGHT, WRONG = "[green]✓[/]", "[red]✗[/]"


@click.command()
def command() -> None:
    """Send messages and record batches through the codec and show what happened."""
    # Here and not above: `tidelog --help` needs neither.
    from rich.console import Console

    from tidelog import __version__

    console = Console()
    began = time.perf_counter()
    console.rule(f"[bold]Tidelog {__version__}[/]: Kafka's wire protocol and record batches")
    show_produce(console)
    show_connection(console)
    are_right = [
        show_messages(console),
        show_every_version(console),
        show_batches(console),
        show_refusals(console),
    ]
    console.print(
        f"\nDone in {time.perf_counter() - began:.1f} s. No node runs yet: what is missing is in "
        "[cyan]docs/protocol-support.md[/], how it works in [cyan]docs/ARCHITECTURE.md[/]."
    )
    if not all(are_right):
        raise click.ClickException("something did not come back as it was sent, see ✗ above")


def show_produce(console: Console) -> None:
    """One request on its way; a step that fails raises."""
    from rich.table import Table

    from tidelog.cli.demo_produce import produce_once

    table = Table(title="\nOne Produce through the files", title_justify="left")
    table.add_column("file", style="cyan")
    table.add_column("what it did")
    for step in produce_once():
        table.add_row(step.module, step.text)
    console.print(table)


def show_connection(console: Console) -> None:
    """What a listener does with good and bad bytes."""
    from rich.table import Table

    from tidelog.cli.demo_connection import exchanges

    table = Table(title="\nOver a real socket", title_justify="left")
    table.add_column("a client sends")
    table.add_column("and gets")
    for exchange in exchanges():
        table.add_row(exchange.sent, exchange.got)
    console.print(table)


def show_messages(console: Console) -> bool:
    """A few messages closely: sizes and times."""
    from rich.table import Table

    from tidelog.cli.demo_batches import sample_batch
    from tidelog.cli.demo_messages import trips

    table = Table(title="\nMessages, to bytes and back", title_justify="left")
    table.add_column("message")
    table.add_column("about")
    for heading in ("bytes", "encode µs", "decode µs"):
        table.add_column(heading, justify="right")
    table.add_column("same", justify="center")
    found: list[Trip] = []
    for trip in trips(sample_batch()):
        if found and found[-1].name != trip.name:
            table.add_section()
        found.append(trip)
        table.add_row(
            f"{trip.name} v{trip.version}",
            trip.about,
            f"{trip.size:,}",
            f"{trip.encode_us:,.1f}",
            f"{trip.decode_us:,.1f}",
            RIGHT if trip.is_same else WRONG,
        )
    console.print(table)
    return all(trip.is_same for trip in found)


def show_every_version(console: Console) -> bool:
    """All messages once each: that none was forgotten."""
    from rich.progress import Progress

    from tidelog.cli.demo_messages import every_message, returns_unchanged

    pairs = list(every_message())
    began = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        changed = [
            f"{cls.__name__} v{version}"
            for cls, version in progress.track(pairs, description="every message, every version")
            if not returns_unchanged(cls, version)
        ]
    elapsed = time.perf_counter() - began
    classes = {cls for cls, _ in pairs}
    console.print(
        f"\n{WRONG if changed else RIGHT} {len(classes)} requests and responses in every version: "
        f"{len(pairs) - len(changed):,} of {len(pairs):,} came back equal, "
        f"in {elapsed:.1f} s with generating each codec."
    )
    for name in changed:
        console.print(f"  {WRONG} {name}")
    return not changed


def show_batches(console: Console) -> bool:
    """The same records in every compression."""
    from rich.table import Table

    from tidelog.cli.demo_batches import RECORDS, batch_trips, is_compiled

    walker = "compiled module" if is_compiled() else "Python twin: no compiled module here"
    title = f"\nA batch of {RECORDS:,} records, built, checked, decoded to columns ({walker})"
    table = Table(title=title, title_justify="left")
    table.add_column("compression")
    for heading in ("raw bytes", "bytes", "build ms", "check ms", "columns ms"):
        table.add_column(heading, justify="right")
    table.add_column("same", justify="center")
    found = []
    for trip in batch_trips():
        found.append(trip)
        table.add_row(
            trip.compression,
            f"{trip.records_size:,}",
            f"{trip.size:,}",
            f"{trip.build_ms:.1f}",
            f"{trip.validate_ms:.2f}",
            f"{trip.decode_ms:.2f}",
            RIGHT if trip.is_same else WRONG,
        )
    console.print(table)
    return all(trip.is_same for trip in found)


def show_refusals(console: Console) -> bool:
    """Bad batches, and that each is refused."""
    from rich.table import Table

    from tidelog.cli.demo_batches import attempts

    table = Table(title="\nBatches that are refused", title_justify="left")
    table.add_column("a producer sends")
    table.add_column("and is told", style="yellow")
    table.add_column("because", overflow="fold")
    found = list(attempts())
    for attempt in found:
        table.add_row(attempt.what, attempt.error_code or WRONG, attempt.error_message)
    console.print(table)
    return all(attempt.error_code for attempt in found)
