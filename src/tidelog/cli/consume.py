"""`tidelog consume`: prints the records of a topic, as kafka-console-consumer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidelog.cli.connect import Connection, connected, connection_options
from tidelog.cli.properties import parse_assignments

if TYPE_CHECKING:
    from tidelog.cli.formats import Formatter

PRINTED = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")


@click.command("consume")
@connection_options
@click.option("--topic", metavar="NAME", required=True, help="The topic to read.")
@click.option("--partition", metavar="N", type=click.IntRange(min=0), help="Read this one only.")
@click.option(
    "--offset",
    metavar="OFFSET",
    default="latest",
    show_default=True,
    help="Where to start: a number, `earliest` or `latest`; a number needs --partition.",
)
@click.option("--from-beginning", is_flag=True, help="Start at the earliest record.")
@click.option(
    "--timestamp",
    metavar="TIME",
    help="Start at the first record of this time: milliseconds, or 2026-01-31T12:00:00+01:00.",
)
@click.option("--group", metavar="NAME", hidden=True)
@click.option("--max-messages", metavar="N", type=click.IntRange(min=1), help="End after so many.")
@click.option(
    "--timeout-ms", metavar="MS", type=click.IntRange(min=1), help="End when none came for so long."
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
)
@click.option("--print-key", is_flag=True, help="Print the key before the value.")
@click.option("--print-offset", is_flag=True, help="Print the offset.")
@click.option("--print-partition", is_flag=True, help="Print the partition.")
@click.option("--print-timestamp", is_flag=True, help="Print the time and its kind.")
@click.option("--print-headers", is_flag=True, help="Print the headers.")
@click.option(
    "--formatter-property",
    "--property",
    metavar="NAME=VALUE",
    multiple=True,
    help="Kafka's names: print.key (.offset, .partition, .timestamp, .headers, .epoch, .value), "
    "key.separator, line.separator, headers.separator, null.literal.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for scripts.")
def command(
    connection: Connection,
    topic: str,
    partition: int | None,
    offset: str,
    from_beginning: bool,
    timestamp: str | None,
    group: str | None,
    max_messages: int | None,
    timeout_ms: int | None,
    isolation_level: str,
    formatter_property: tuple[str, ...],
    as_json: bool,
    **flags: bool,
) -> None:
    """Print the records of a topic until Ctrl-C.

    It starts at the end unless you say otherwise.

    \b
    tidelog consume --topic orders --from-beginning --max-messages 10
    tidelog consume --topic orders --partition 0 --offset 4711 --print-key --json
    """
    from tidelog.cli.consuming import Consuming, parse_start

    if group is not None:
        raise click.UsageError("--group: this version reads partitions by itself; leave it out")
    formatter = _formatter(parse_assignments(formatter_property), flags, as_json)
    start = parse_start("earliest" if from_beginning else offset, timestamp, partition)
    with connected(*connection) as client:
        consuming = Consuming(client, topic, partition, isolation_level, formatter)
        try:
            consuming.run(start, max_messages, timeout_ms)
        except KeyboardInterrupt:  # how it is meant to end
            pass
        finally:
            consuming.close()


def _formatter(properties: dict[str, str], flags: dict[str, bool], as_json: bool) -> Formatter:
    from tidelog.cli.formats import JsonFormatter, LineFormatter

    for name in PRINTED:
        if flags.get(f"print_{name}"):
            properties[f"print.{name}"] = "true"
    if as_json:
        return JsonFormatter()
    try:
        return LineFormatter.from_properties(properties)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
