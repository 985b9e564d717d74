"""`tidelog topics`: create, delete, describe, list and extend topics, as kafka-topics does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import click

from tidelog.cli.connect import Connection, connected, connection_options
from tidelog.cli.properties import parse_assignments

if TYPE_CHECKING:
    from tidelog.client import Client
    from tidelog.client.topics import Results

ACTIONS = ("create", "delete", "describe", "list", "alter")
ONLY_WITH = {
    "topic_id": ("describe",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "if_not_exists": ("create",),
    "if_exists": ("delete", "describe", "alter"),
    "exclude_internal": ("describe", "list"),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
    "under_min_isr_partitions": ("describe",),
    "at_min_isr_partitions": ("describe",),
    "topics_with_overrides": ("describe",),
    "partition_size_limit_per_response": ("describe",),
}
"""As with Kafka's tool: a filter that is ignored would show, or delete, what was not meant."""
PARTITION_FILTERS = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)


class Wanted(NamedTuple):
    """The command line."""

    topic: str | None
    topic_id: str | None
    partitions: int | None
    replication_factor: int | None
    replica_assignment: str | None
    config: tuple[str, ...]
    if_not_exists: bool
    if_exists: bool
    exclude_internal: bool
    under_replicated_partitions: bool
    unavailable_partitions: bool
    under_min_isr_partitions: bool
    at_min_isr_partitions: bool
    topics_with_overrides: bool
    partition_size_limit_per_response: int | None
    json: bool

    @property
    def partition_filters(self) -> tuple[str, ...]:
        """What partitions are looked for, if topics are not described whole."""
        return tuple(name for name in PARTITION_FILTERS if getattr(self, name))


@click.command("topics")
@connection_options
@click.option("--create", "action", flag_value="create", help="Create a topic.")
@click.option("--delete", "action", flag_value="delete", help="Delete topics and their records.")
@click.option("--describe", "action", flag_value="describe", help="Show topics and partitions.")
@click.option("--list", "action", flag_value="list", help="List the topics' names.")
@click.option("--alter", "action", flag_value="alter", help="Give topics more partitions.")
@click.option(
    "--topic",
    metavar="NAME",
    help="The topic. Except with --create also a regular expression, or several by commas.",
)
@click.option("--topic-id", metavar="ID", help="With --describe: the topic of this id.")
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(min=1),
    help="How many (default: the broker's).",
)
@click.option(
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1, 32767),
    help="On how many brokers each partition lies (default: the broker's).",
)
@click.option(
    "--replica-assignment",
    metavar="1:2,2:3,...",
    help="The brokers of each partition, in place of the two counts; the first is preferred.",
)
@click.option(
    "--config",
    metavar="NAME=VALUE",
    multiple=True,
    help="With --create: a topic config; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="With --create: an existing topic is fine.")
@click.option("--if-exists", is_flag=True, help="A missing topic is fine.")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option(
    "--under-replicated-partitions", is_flag=True, help="Only those with a lagging replica."
)
@click.option("--unavailable-partitions", is_flag=True, help="Only those without a leader.")
@click.option("--under-min-isr-partitions", is_flag=True, help="Only those that refuse acks=all.")
@click.option("--at-min-isr-partitions", is_flag=True, help="Only those with no replica to spare.")
@click.option(
    "--topics-with-overrides",
    is_flag=True,
    help="Only topics with a config that is not the default, by their own or the broker's.",
)
@click.option(
    "--delete-config",
    multiple=True,
    hidden=True,
    expose_value=False,
    callback=lambda context, parameter, names: _warn_of_delete_config(names),
)
@click.option(
    "--partition-size-limit-per-response",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --describe: how many partitions an answer of a broker has at most.",
)
@click.option("--json", is_flag=True, help="Print JSON, for scripts.")
def command(connection: Connection, action: str | None, **options: object) -> None:
    """Create, delete, describe, list or extend topics.

    \b
    tidelog topics --create --topic orders --partitions 6
    tidelog topics --describe --topic 'orders.*'
    """
    wanted = Wanted(**options)  # type: ignore[arg-type]  # click makes them what they are
    if action is None:
        raise click.UsageError("say what to do: " + ", ".join(f"--{name}" for name in ACTIONS))
    _check(action, wanted)
    with connected(*connection) as client:
        match action:
            case "create":
                _create(client, wanted)
            case "delete":
                _delete(client, wanted)
            case "alter":
                _alter(client, wanted)
            case "list":
                _list(client, wanted)
            case _:
                from tidelog.cli.describe_topics import describe

                describe(client, wanted, matching(client, wanted))


def _warn_of_delete_config(names: tuple[str, ...]) -> None:
    """Kafka's tool takes it still, and does nothing."""
    if names:
        click.echo(
            "delete-config option is no longer supported and deprecated since version 4.0."
            " Use `tidelog configs --alter --delete-config`.",
            err=True,
        )


def _check(action: str, wanted: Wanted) -> None:
    if action in ("create", "delete", "alter") and not wanted.topic:
        raise click.UsageError(f"--{action} needs --topic NAME")
    if action == "alter" and wanted.partitions is None:
        raise click.UsageError("--alter needs --partitions N; for configs see `tidelog configs`")
    if wanted.config and action != "create":
        raise click.UsageError("--config goes with --create; see `tidelog configs` for the rest")
    for name, actions in ONLY_WITH.items():
        if getattr(wanted, name) not in (None, False) and action not in actions:
            listed = " or ".join(f"--{one}" for one in actions)
            raise click.UsageError(f"--{name.replace('_', '-')} goes with {listed}")
    if wanted.topics_with_overrides and wanted.partition_filters:
        # One shows topics without partitions, the other partitions without topics: both, nothing.
        name = wanted.partition_filters[0].replace("_", "-")
        raise click.UsageError(f"--{name} cannot be used with --topics-with-overrides")
    counts = (wanted.partitions, wanted.replication_factor)
    if action == "create" and wanted.replica_assignment and counts != (None, None):
        raise click.UsageError(
            "--replica-assignment stands in place of --partitions and --replication-factor"
        )


def _create(client: Client, wanted: Wanted) -> None:
    from tidelog.client.topics import BROKER_DEFAULT, NewTopic, create_topics

    assert wanted.topic is not None
    if "." in wanted.topic and "_" in wanted.topic:
        click.echo(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore "
            "('_') could collide. To avoid issues it is best to use either, but not both.",
            err=True,
        )
    topic = NewTopic(
        wanted.topic,
        BROKER_DEFAULT if wanted.partitions is None else wanted.partitions,
        BROKER_DEFAULT if wanted.replication_factor is None else wanted.replication_factor,
        parse_assignment(wanted.replica_assignment),
        parse_assignments(wanted.config),
    )
    results = client.run(create_topics, [topic])
    error = results[topic.name]
    if error is not None and error.code.name == "TOPIC_ALREADY_EXISTS" and wanted.if_not_exists:
        return
    _report(results, "Created topic {}.")


def _delete(client: Client, wanted: Wanted) -> None:
    from tidelog.client.topics import delete_topics

    names = matching(client, wanted)
    if names:
        _report(client.run(delete_topics, names), "Deleted topic {}.")


def _alter(client: Client, wanted: Wanted) -> None:
    from tidelog.client.topics import MorePartitions, create_partitions, describe_topics

    assert wanted.partitions is not None
    names = matching(client, wanted)
    assignment = parse_assignment(wanted.replica_assignment)
    existing = client.run(describe_topics, names)
    topics = [
        MorePartitions(name, wanted.partitions, assignment[len(existing[name].partitions) :])
        for name in names
        if name in existing
    ]
    if topics:
        done = f"Topic {{}} has {wanted.partitions} partitions."
        _report(client.run(create_partitions, topics), done)


def _list(client: Client, wanted: Wanted) -> None:
    names = matching(client, wanted._replace(if_exists=True))
    if wanted.json:
        import json

        click.echo(json.dumps(names))
    else:
        for name in names:
            click.echo(name)


def _report(results: Results, done: str) -> None:
    """One line a topic; the first error ends the command, after what succeeded was said."""
    for name, error in results.items():
        if error is None:
            click.echo(done.format(name))
    for error in results.values():
        if error is not None:
            raise error


def matching(client: Client, wanted: Wanted) -> list[str]:
    """The names of the topics that --topic or --topic-id means; all without either."""
    from tidelog.client.topics import list_topics
    from tidelog.types import format_uuid

    pattern = topic_pattern(wanted.topic)
    names = [
        name
        for name, topic in client.run(list_topics).items()
        if pattern.fullmatch(name)
        and not (wanted.exclude_internal and topic.is_internal)
        and wanted.topic_id in (None, format_uuid(topic.topic_id))
    ]
    sought = wanted.topic if wanted.topic is not None else wanted.topic_id
    if not names and sought is not None and not wanted.if_exists:
        raise click.ClickException(
            f"Topic '{sought}' does not exist as expected; `tidelog topics --list` shows them all"
        )
    return names


def topic_pattern(text: str | None) -> re.Pattern[str]:
    """Kafka's way to name topics: a regular expression, commas between alternatives."""
    if text is None:
        return re.compile(".*")
    alternatives = "|".join(part.strip(" \"'") for part in text.split(","))
    try:
        return re.compile(alternatives)
    except re.error as error:
        raise click.BadParameter(
            f"{text!r} is no regular expression: {error}", param_hint="--topic"
        ) from None


def parse_assignment(text: str | None) -> tuple[tuple[int, ...], ...]:
    """`1:2,2:3` says: partition 0 on brokers 1 and 2, partition 1 on 2 and 3."""
    if not text:
        return ()
    try:
        assignment = tuple(
            tuple(int(broker) for broker in partition.split(":")) for partition in text.split(",")
        )
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not like 1:2,2:3 (brokers by colons, partitions by commas)",
            param_hint="--replica-assignment",
        ) from None
    for brokers in assignment:
        if len(set(brokers)) < len(brokers):
            raise click.BadParameter(
                "a partition names a broker twice", param_hint="--replica-assignment"
            )
    return assignment
