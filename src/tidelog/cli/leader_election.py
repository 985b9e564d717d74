"""`tidelog leader-election`: elects leaders of partitions, as kafka-leader-election does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.connect import (
    Connection,
    connected,
    connection_options,
    deprecated_config_option,
)

if TYPE_CHECKING:
    from tidelog.client import BrokerError, Client, TopicPartition
    from tidelog.errors import ErrorCode

EXCEPTIONS = "org.apache.kafka.common.errors"
OTHER_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "INVALID_TOPIC_EXCEPTION": "InvalidTopicException",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
}
"""Of the errors of an election, those whose class in Kafka is not named as the code."""


@click.command("leader-election")
@connection_options
@deprecated_config_option("--admin.config")
@click.option(
    "--election-type",
    required=True,
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    help="preferred: the first replica, if it is in sync. unclean: any that lives, where no leader"
    " is left; records that it lacks are lost.",
)
@click.option("--all-topic-partitions", is_flag=True, help="Every partition of the cluster.")
@click.option("--topic", metavar="NAME", help="The partitions of this topic.")
@click.option(
    "--partition", metavar="N", type=click.IntRange(min=0), help="With --topic: only this one."
)
@click.option(
    "--path-to-json-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Those of a file: {"partitions": [{"topic": "t", "partition": 0}]}.',
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def command(
    connection: Connection,
    election_type: str,
    all_topic_partitions: bool,
    topic: str | None,
    partition: int | None,
    path_to_json_file: Path | None,
    as_json: bool,
) -> None:
    """Elect leaders, of all partitions, of a topic's or of those in a file.

    \b
    tidelog leader-election --election-type preferred --topic orders
    """
    chosen = [all_topic_partitions, topic is not None, path_to_json_file is not None]
    if sum(chosen) != 1:
        raise click.UsageError(
            "want one of --topic NAME, --all-topic-partitions and --path-to-json-file FILE"
        )
    if partition is not None and topic is None:
        raise click.UsageError("--partition goes with --topic")
    from tidelog.client.elections import ElectionType, elect_leaders

    kind = ElectionType[election_type.upper()]
    with connected(*connection) as client:
        wanted = _wanted(client, topic, partition, path_to_json_file)
        results = client.run(elect_leaders, kind, wanted)
    report(kind.name, results, as_json)


def _wanted(
    client: Client, topic: str | None, partition: int | None, file: Path | None
) -> list[TopicPartition] | None:
    """The partitions; None for all."""
    from tidelog.client import TopicPartition

    if file is not None:
        from tidelog.cli.partition_files import read_partitions

        return read_partitions(file)
    if topic is None:
        return None
    if partition is not None:
        return [TopicPartition(topic, partition)]
    from tidelog.client.topics import describe_topics

    described = client.run(describe_topics, [topic]).get(topic)
    if described is None:
        raise click.ClickException(
            f"Topic '{topic}' does not exist; `tidelog topics --list` shows them all"
        )
    return [TopicPartition(topic, one.partition) for one in described.partitions]


def report(kind: str, results: dict[TopicPartition, BrokerError | None], as_json: bool) -> None:
    """Kafka's lines; partitions that failed fail the command."""
    elected, needless, failed = [], [], {}
    for partition, error in sorted(results.items()):
        if error is None:
            elected.append(partition)
        elif error.code.name == "ELECTION_NOT_NEEDED":
            needless.append(partition)
        else:
            failed[partition] = error
    if as_json:
        _print_json(elected, needless, failed)
    else:
        if elected:
            listed = ", ".join(map(str, elected))
            click.echo(f"Successfully completed leader election ({kind}) for partitions {listed}")
        if needless:
            listed = ", ".join(map(str, needless))
            click.echo(f"Valid replica already elected for partitions {listed}")
        for partition, error in failed.items():
            click.echo(
                f"Error completing leader election ({kind}) for partition: {partition}:"
                f" {exception_name(error.code)}: {error.message}"
            )
    if failed:
        raise click.ClickException(f"{len(failed)} replica(s) could not be elected")


def exception_name(code: ErrorCode) -> str:
    """The class by which Kafka's tool names an error: scripts look for it."""
    camel = "".join(word.capitalize() for word in code.name.split("_"))
    return f"{EXCEPTIONS}.{OTHER_NAMES.get(code.name, camel + 'Exception')}"


def _print_json(
    elected: list[TopicPartition],
    needless: list[TopicPartition],
    failed: dict[TopicPartition, BrokerError],
) -> None:
    content = {
        "elected": [one._asdict() for one in elected],
        "already_elected": [one._asdict() for one in needless],
        "failed": [
            {**one._asdict(), "error": error.code.name, "message": error.message}
            for one, error in failed.items()
        ],
    }
    click.echo(json.dumps(content, indent=2))
