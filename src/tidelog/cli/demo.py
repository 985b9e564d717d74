"""`tidelog demo`."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Send messages and record batches through the codec and show what happened."""
    click.echo("nothing to show")
