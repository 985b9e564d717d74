"""`tidelog dump-log`: what the files of a log say, as Apache Kafka's DumpLogSegments does."""

from __future__ import annotations

import json

import click

from tidelog.disk import RealDisk
from tidelog.log.dump import Item, Problem, Value, dump_file
from tidelog.log.names import LOG, OFFSET_INDEX

OPTIONAL = frozenset({"deleteHorizonMs", "currentTxnFirstOffset"})
"""Java prints these as OptionalLong."""


def text_of(item: Item) -> str:
    """The line that Kafka's tool prints."""
    words = [f"{name}: {_text(name, value)}" for name, value in item.fields.items()]
    return ("| " if item.kind == "record" else "") + " ".join(words)


def _text(name: str, value: Value) -> str:
    if name in OPTIONAL:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return str(value)


@click.command("dump-log")
@click.option("--files", required=True, metavar="A,B", help="Log, index and snapshot files.")
@click.option("--print-data-log", is_flag=True, help="Show keys and values of records.")
@click.option("--deep-iteration", is_flag=True, help="Show the records of each batch.")
@click.option(
    "--cluster-metadata-decoder",
    "decoder",
    flag_value="decode_metadata",
    help="Show what records of the metadata log say.",
)
@click.option(
    "--offsets-decoder",
    "decoder",
    flag_value="decode_offsets",
    help="The same for __consumer_offsets.",
)
@click.option(
    "--transaction-log-decoder",
    "decoder",
    flag_value="decode_transactions",
    help="The same for __transaction_state.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    files: str, print_data_log: bool, deep_iteration: bool, decoder: str | None, as_json: bool
) -> None:
    """Show what the files of a log say, and what is wrong with them.

    The lines are those of Apache Kafka's DumpLogSegments. The exit code is 1 if something is wrong.
    """
    from tidelog.cli import dump_decoders

    disk = RealDisk()
    decode = None if decoder is None else getattr(dump_decoders, decoder)
    problems = 0
    for path in files.split(","):
        if disk.size(path) is None:
            raise click.ClickException(f"there is no file {path}")
        try:
            items = dump_file(
                disk,
                path,
                records=deep_iteration or print_data_log or decode is not None,
                contents=print_data_log,
                decoder=decode,
            )
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        if not as_json:
            click.echo(f"Dumping {path}")
            if path.endswith(LOG):
                click.echo(f"Log starting offset: {int(path.rpartition('/')[2][:20])}")
            elif path.endswith(OFFSET_INDEX) and disk.size(path) == 0:
                click.echo(f"{path} is empty.")
        for item in items:
            if isinstance(item, Problem):
                problems += 1
                click.echo(item.text, err=True)
            elif as_json:
                click.echo(json.dumps({"file": path, "kind": item.kind, **item.fields}))
            else:
                click.echo(text_of(item))
    if problems:
        raise click.exceptions.Exit(1)
