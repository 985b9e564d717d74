"""`tidelog dump-log`: what the files of a log say, as Apache Kafka's DumpLogSegments does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from tidelog.disk import RealDisk
from tidelog.log.dump import Item, Problem, Value, Wanted, check_index, dump_file
from tidelog.log.names import LOG, OFFSET_INDEX, TIME_INDEX

OPTIONAL = frozenset({"deleteHorizonMs", "currentTxnFirstOffset"})
"""Java prints these as OptionalLong."""
INDEX_ENTRIES = frozenset({"offset index entry", "time index entry"})
CHECKED = "sanity check"


def text_of(item: Item) -> str:
    """The line that Kafka's tool prints."""
    words = [f"{name}: {_text(name, value)}" for name, value in item.fields.items()]
    return ("| " if item.kind == "record" and words else "") + " ".join(words)


def _text(name: str, value: Value) -> str:
    if name in OPTIONAL:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return str(value)


class Dump:
    """Files, one after the other: what they say on standard output, what is wrong with them on
    the other."""

    def __init__(self, wanted: Wanted, *, checks: bool, shows_entries: bool, as_json: bool) -> None:
        self._disk = RealDisk()
        self._wanted = wanted
        self._checks = checks
        """Of an index, whether it passes; not what it says."""
        self._shows_entries = shows_entries
        self._as_json = as_json
        self.problems = 0

    def show(self, path: str) -> None:
        if self._disk.size(path) is None:
            raise click.ClickException(f"there is no file {path}")
        try:
            items = self._items(path)
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        is_empty = path.endswith(OFFSET_INDEX) and self._disk.size(path) == 0
        if not self._as_json:
            click.echo(f"Dumping {path}")
            if path.endswith(LOG):
                click.echo(f"Log starting offset: {int(path.rpartition('/')[2][:20])}")
            elif is_empty:
                click.echo(f"{path} is empty.")
        for item in items:
            if isinstance(item, Problem):
                self.problems += 1
                click.echo(item.text, err=True)
            elif item.kind in INDEX_ENTRIES and not self._shows_entries:
                continue
            elif self._as_json:
                click.echo(json.dumps({"file": path, "kind": item.kind, **item.fields}))
            elif item.kind != CHECKED:
                click.echo(text_of(item))
            elif not is_empty:
                click.echo(f"{path} passed sanity check.")

    def _items(self, path: str) -> Iterator[Item | Problem]:
        if self._checks and path.endswith((OFFSET_INDEX, TIME_INDEX)):
            problem = check_index(self._disk, path)
            return iter([problem or Item(CHECKED, {"passed": True})])
        return dump_file(self._disk, path, self._wanted)


@click.command("dump-log")
@click.option("--files", required=True, metavar="A,B", help="Log, index and snapshot files.")
@click.option("--print-data-log", is_flag=True, help="Show keys and values of records.")
@click.option("--deep-iteration", is_flag=True, help="Show the records of each batch.")
@click.option(
    "--skip-record-metadata", is_flag=True, help="Show nothing but keys and values of records."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=0),
    metavar="SIZE",
    help="Read so much of each log, in whole batches.",
)
@click.option(
    "--verify-index-only", is_flag=True, help="Compare indexes with their logs; show no entries."
)
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Say only whether indexes pass what Kafka checks at a start.",
)
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
    files: str,
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    max_bytes: int | None,
    verify_index_only: bool,
    index_sanity_check: bool,
    decoder: str | None,
    as_json: bool,
) -> None:
    """Show what the files of a log say, and what is wrong with them.

    The lines are those of Apache Kafka's DumpLogSegments. The exit code is 1 if something is wrong.
    """
    from tidelog.cli import dump_decoders

    decode = None if decoder is None else getattr(dump_decoders, decoder)
    wanted = Wanted(
        records=deep_iteration or print_data_log or decode is not None,
        contents=print_data_log,
        metadata=not skip_record_metadata,
        decoder=decode,
        bytes_max=max_bytes,
    )
    dump = Dump(
        wanted, checks=index_sanity_check, shows_entries=not verify_index_only, as_json=as_json
    )
    for path in files.split(","):
        dump.show(path)
    if dump.problems:
        raise click.exceptions.Exit(1)
