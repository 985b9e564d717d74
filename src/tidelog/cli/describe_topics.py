"""How `tidelog topics --describe` shows topics: Kafka's lines, or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tidelog.client import TopicPartition, UnsupportedByBroker
from tidelog.client.configs import (
    ConfigEntry,
    ConfigSource,
    Resource,
    ResourceType,
    describe_configs,
)
from tidelog.client.reassignments import Reassignment, list_partition_reassignments
from tidelog.client.topics import DescribedPartition, DescribedTopic, describe_topics
from tidelog.types import format_uuid

if TYPE_CHECKING:
    from tidelog.cli.topics import Wanted
    from tidelog.client import Client

RESOURCES_A_REQUEST = 200

Configs = dict[str, tuple[ConfigEntry, ...]]
Moves = dict[TopicPartition, Reassignment]


def describe(client: Client, wanted: Wanted, names: list[str]) -> None:
    """Show these topics, or of them the partitions that were asked for."""
    if not names:
        return
    limit = wanted.partition_size_limit_per_response
    topics = list(client.run(describe_topics, names, partitions_a_page=limit).values())
    configs = _configs(client, [topic.name for topic in topics])
    moves = _moves(client)
    if wanted.topics_with_overrides:
        topics = [topic for topic in topics if config_text(configs[topic.name])]
    if wanted.partition_filters:
        topics = [_filtered(topic, wanted, configs[topic.name], moves) for topic in topics]
        topics = [topic for topic in topics if topic.partitions]
    if wanted.json:
        shown = [_to_json(topic, configs[topic.name], moves) for topic in topics]
        click.echo(json.dumps(shown, indent=2))
    else:
        for topic in topics:
            if not wanted.partition_filters:
                click.echo(topic_line(topic, configs[topic.name], moves))
            if not wanted.topics_with_overrides:
                for partition in topic.partitions:
                    move = moves.get(TopicPartition(topic.name, partition.partition))
                    click.echo(partition_line(topic.name, partition, move))


def _moves(client: Client) -> Moves:
    """What is being reassigned; a broker that cannot say does not move anything."""
    try:
        return client.run(list_partition_reassignments)
    except UnsupportedByBroker:
        return {}


def replication_factor(topic: str, partition: DescribedPartition, moves: Moves) -> int:
    """Without replicas that are on their way: they do not count before they are there."""
    move = moves.get(TopicPartition(topic, partition.partition))
    return len(partition.replicas) - (0 if move is None else len(move.adding))


def _configs(client: Client, names: list[str]) -> Configs:
    found: Configs = {}
    for start in range(0, len(names), RESOURCES_A_REQUEST):
        part = [Resource(ResourceType.TOPIC, n) for n in names[start : start + RESOURCES_A_REQUEST]]
        for resource, entries in client.run(describe_configs, part).items():
            found[resource.name] = entries if isinstance(entries, tuple) else ()
    return found


def _overrides(entries: tuple[ConfigEntry, ...]) -> list[ConfigEntry]:
    return [entry for entry in entries if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG]


def _filtered(
    topic: DescribedTopic, wanted: Wanted, entries: tuple[ConfigEntry, ...], moves: Moves
) -> DescribedTopic:
    minimum = next((e.value for e in entries if e.name == "min.insync.replicas"), None)
    isr_min = int(minimum or 1)
    partitions = tuple(
        p
        for p in topic.partitions
        if (
            wanted.under_replicated_partitions
            and len(p.isr) < replication_factor(topic.name, p, moves)
        )
        or (wanted.unavailable_partitions and p.leader_id < 0)
        or (wanted.under_min_isr_partitions and len(p.isr) < isr_min)
        or (wanted.at_min_isr_partitions and len(p.isr) == isr_min)
    )
    return topic._replace(partitions=partitions)


def config_text(entries: tuple[ConfigEntry, ...]) -> str:
    """What differs from the defaults of the software, wherever it was set."""
    return ",".join(
        f"{entry.name}={entry.value}"
        for entry in entries
        if entry.source is not ConfigSource.DEFAULT_CONFIG
    )


def topic_line(topic: DescribedTopic, entries: tuple[ConfigEntry, ...], moves: Moves) -> str:
    """Kafka's line, tabs and all: scripts read it."""
    first = topic.partitions[0] if topic.partitions else None
    factor = 0 if first is None else replication_factor(topic.name, first, moves)
    fields = (
        f"Topic: {topic.name}",
        f"TopicId: {format_uuid(topic.topic_id)}",
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {factor}",
        f"Configs: {config_text(entries)}",
    )
    return "\t".join(fields)


def partition_line(topic: str, partition: DescribedPartition, move: Reassignment | None) -> str:
    """Kafka's line for a partition, which starts with a tab."""
    fields = [
        f"\tTopic: {topic}",
        f"Partition: {partition.partition}",
        f"Leader: {leader_text(partition)}",
        f"Replicas: {ids_text(partition.replicas)}",
        f"Isr: {ids_text(partition.isr)}",
        f"Elr: {ids_text(partition.eligible_leader_replicas)}",
        f"LastKnownElr: {ids_text(partition.last_known_elr)}",
    ]
    if move is not None:
        fields[5:5] = [
            f"Adding Replicas: {ids_text(move.adding)}",
            f"Removing Replicas: {ids_text(move.removing)}",
        ]
    return "\t".join(fields)


def leader_text(partition: DescribedPartition) -> str:
    return str(partition.leader_id) if partition.leader_id >= 0 else "none"


def ids_text(ids: tuple[int, ...] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _to_json(
    topic: DescribedTopic, entries: tuple[ConfigEntry, ...], moves: Moves
) -> dict[str, object]:
    partitions = []
    for one in topic.partitions:
        move = moves.get(TopicPartition(topic.name, one.partition))
        on_its_way = {} if move is None else {"adding": move.adding, "removing": move.removing}
        partitions.append({**one._asdict(), **on_its_way})
    return {
        "topic": topic.name,
        "topic_id": format_uuid(topic.topic_id),
        "is_internal": topic.is_internal,
        "configs": {e.name: e.value for e in _overrides(entries)},
        "partitions": partitions,
    }
