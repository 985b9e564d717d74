"""`tidelog produce`: each line becomes a record, as with kafka-console-producer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.connect import Connection, connected, connection_options
from tidelog.cli.properties import parse_assignments

if TYPE_CHECKING:
    from tidelog.cli.interrupts import Interrupts
    from tidelog.cli.lines import LineReader
    from tidelog.cli.producing import Producing

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
DELIVERY_TIMEOUT, REQUEST_TIMEOUT = "delivery.timeout.ms", "request.timeout.ms"


@click.command("produce")
@connection_options
@click.option("--topic", metavar="NAME", required=True, help="The topic to write to.")
@click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Read lines from this file instead of standard input; may be repeated.",
)
@click.option(
    "--partition", metavar="N", type=click.IntRange(min=0), help="Write to this one only."
)
@click.option("--parse-key", is_flag=True, help="A line is a key, a separator and a value.")
@click.option("--key-separator", metavar="TEXT", help="What ends the key; implies --parse-key.")
@click.option(
    "--parse-headers", is_flag=True, help="A line begins with headers: name:value,name:value<TAB>"
)
@click.option(
    "--header", metavar="NAME=VALUE", multiple=True, help="For every record; may be repeated."
)
@click.option(
    "--reader-property",
    "--property",
    metavar="NAME=VALUE",
    multiple=True,
    help="Kafka's names: parse.key, key.separator, parse.headers, headers.delimiter, "
    "headers.separator, headers.key.separator, null.marker, ignore.error.",
)
@click.option(
    "--acks",
    "--request-required-acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Which replicas must have a record before it counts as sent.",
)
@click.option(
    "--compression-codec",
    "--compression",
    type=click.Choice(CODECS),
    default="none",
    show_default=True,
)
@click.option(
    "--batch-size",
    metavar="BYTES",
    type=click.IntRange(1, 64 << 20),
    default=64 << 10,
    show_default=True,
    help="A partition's batch is sent when it has as many bytes of records.",
)
@click.option(
    "--timeout",
    "linger_ms",
    metavar="MS",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="How long a batch may wait for more lines.",
)
@click.option("--sync", is_flag=True, help="Send each record alone, and wait for its answer.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    connection: Connection,
    topic: str,
    files: tuple[Path, ...],
    partition: int | None,
    acks: str,
    compression_codec: str,
    batch_size: int,
    linger_ms: int,
    sync: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Write each line of standard input (or of --file) as a record.

    \b
    seq 1000 | tidelog produce --topic numbers
    tidelog produce --topic orders --key-separator : --file orders.txt

    Records that brokers refuse for now are sent again for two minutes, or as long as
    --command-property delivery.timeout.ms=MS says; then the exit code is 1. Ctrl-C ends the input
    and waits for what is on its way; the second one does not.
    """
    from tidelog.cli.interrupts import Interrupts
    from tidelog.cli.producing import Producing

    reader = _reader(**options)  # type: ignore[arg-type]  # click makes them what they are
    connection, delivery_timeout_ms = _delivery_timeout(connection)
    with connected(*connection) as client:
        producing = Producing(
            client,
            topic,
            partition,
            acks=ACKS[acks],
            codec=compression_codec,
            batch_size=batch_size,
            delivery_timeout_ms=delivery_timeout_ms,
            sync=sync,
        )
        try:
            with Interrupts(producing.waits_for) as interrupts:
                _feed(producing, interrupts, reader, files, linger_ms)
                producing.finish()
        except KeyboardInterrupt:
            producing.give_up()
        if interrupts.have_come:
            raise SystemExit(130)
        producing.summarize(as_json)


def _delivery_timeout(connection: Connection) -> tuple[Connection, int]:
    """The producer's own property among the client's. A request may not take longer: unless it
    is told how long it may take, it takes less."""
    from tidelog.client import ClientSettings
    from tidelog.client.producer_settings import producer_settings

    properties = dict(connection.properties)
    given = {name: properties.pop(name) for name in (DELIVERY_TIMEOUT,) if name in properties}
    request_ms = properties.get(REQUEST_TIMEOUT, "")
    try:
        settings = producer_settings(given, int(request_ms) if request_ms.isdigit() else 0, {})
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    timeout_ms = settings.delivery_timeout_ms
    if given:
        most_ms = min(timeout_ms, ClientSettings.request_timeout_ms)
        properties.setdefault(REQUEST_TIMEOUT, str(most_ms))
    return connection._replace(properties=properties), timeout_ms


def _reader(
    parse_key: bool,
    key_separator: str | None,
    parse_headers: bool,
    header: tuple[str, ...],
    reader_property: tuple[str, ...],
) -> LineReader:
    from tidelog.cli.lines import BadLine, LineReader

    properties = parse_assignments(reader_property)
    if parse_key or key_separator is not None:
        properties["parse.key"] = "true"
    if key_separator is not None:
        properties["key.separator"] = key_separator
    if parse_headers:
        properties["parse.headers"] = "true"
    headers = tuple((n.encode(), v.encode()) for n, v in parse_assignments(header).items())
    try:
        return LineReader.from_properties(properties, headers)
    except BadLine as error:
        raise click.UsageError(str(error)) from None


def _feed(
    producing: Producing,
    interrupts: Interrupts,
    reader: LineReader,
    files: tuple[Path, ...],
    linger_ms: int,
) -> None:
    from tidelog.cli.lines import BadLine, lines

    opened = [path.open("rb", buffering=0) for path in files]
    is_prompted = not files and sys.stdin.isatty()
    number = 0
    for descriptor in [file.fileno() for file in opened] or [sys.stdin.fileno()]:
        if is_prompted:
            click.echo(">", nl=False, err=True)
        for line in interrupts.reading(lines(descriptor, linger_ms)):
            if line is None:
                producing.flush()
                continue
            number += 1
            try:
                producing.append(reader.read(line, number))
            except BadLine as error:
                producing.finish()
                raise click.ClickException(str(error)) from None
            if is_prompted:
                click.echo(">", nl=False, err=True)
    for file in opened:
        file.close()
