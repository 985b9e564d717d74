"""The JSON files in which Kafka's tools name topics and partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.client.cluster import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"


class Placement(NamedTuple):
    """Where a file wants a partition; the first replica is preferred."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    names_directories: bool = False


class Malformed(Exception):
    """What is wrong with a file, after its name."""


@contextmanager
def _content(path: Path) -> Iterator[Any]:
    """The JSON in a file; what is wrong with it, or found to be, ends the command with one line."""
    try:
        yield json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise click.ClickException(f"{path} is not JSON: {error}") from None
    except RecursionError:  # of the parser, or of who shows what it found
        raise click.ClickException(f"{path} is nested too deeply") from None
    except Malformed as error:
        raise click.ClickException(f"{path}: {error}") from None


def read_partitions(path: Path) -> list[TopicPartition]:
    """`{"partitions": [{"topic": "t", "partition": 0}]}`"""
    with _content(path) as content:
        found = [_partition(item) for item in _listed(content, "partitions")]
        _require_different(found)
    return found


def read_topics(path: Path) -> list[str]:
    """`{"version": 1, "topics": [{"topic": "t"}]}`"""
    with _content(path) as content:
        topics = [_field(item, "topic", str) for item in _listed(content, "topics")]
    return list(dict.fromkeys(topics))


def read_placements(path: Path) -> list[Placement]:
    """`{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}`"""
    with _content(path) as content:
        found = [_placement(item) for item in _listed(content, "partitions")]
        if not found:
            raise Malformed("Partition reassignment list cannot be empty")
        _require_different([one.partition for one in found])
    return sorted(found)


def placements_text(placements: dict[TopicPartition, tuple[int, ...]]) -> str:
    """The same, as Kafka's tool prints it to be saved."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_DIRECTORY] * len(replicas),
        }
        for partition, replicas in sorted(placements.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def _listed(content: Any, name: str) -> list[Any]:
    if not isinstance(content, dict) or not isinstance(content.get(name), list):
        raise Malformed(f"want an object with a list {name!r}")
    version = content.get("version", VERSION)
    if version != VERSION:
        raise Malformed(f"version {version}, want {VERSION}")
    listed: list[Any] = content[name]
    return listed


def _field(item: Any, name: str, kind: type[Any]) -> Any:
    value = item.get(name) if isinstance(item, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Malformed(f"{json.dumps(item)}: want {name!r} as {kind.__name__}")
    return value


def _partition(item: Any) -> TopicPartition:
    return TopicPartition(_field(item, "topic", str), _field(item, "partition", int))


def _placement(item: Any) -> Placement:
    partition, replicas = _partition(item), tuple(_field(item, "replicas", list))
    if not replicas:
        raise Malformed(f"{partition}: Partition replica list cannot be empty")
    if not all(isinstance(replica, int) for replica in replicas):
        raise Malformed(f"{json.dumps(item)}: want 'replicas' as broker ids")
    twice = sorted({replica for replica in replicas if replicas.count(replica) > 1})
    if twice:
        raise Malformed(
            "Partition replica lists may not contain duplicate entries:"
            f" {partition} contains multiple entries for {','.join(map(str, twice))}"
        )
    directories = _field(item, "log_dirs", list) if "log_dirs" in item else []
    if len(directories) not in (0, len(replicas)):
        raise Malformed(
            f"Size of replicas list {list(replicas)} is different from size of log dirs list"
            f" {directories} for partition {partition}"
        )
    return Placement(partition, replicas, any(one != ANY_DIRECTORY for one in directories))


def _require_different(partitions: list[TopicPartition]) -> None:
    twice = sorted({one for one in partitions if partitions.count(one) > 1})
    if twice:
        listed = ",".join(map(str, twice))
        raise Malformed(f"Partition reassignment contains duplicate topic partitions: {listed}")
