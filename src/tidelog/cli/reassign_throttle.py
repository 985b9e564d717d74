"""The throttle of `tidelog reassign`: the configs by which Kafka's tool limits how fast replicas
are filled, for as long as something moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import click

from tidelog.cli.partition_files import Placement
from tidelog.client import Client, TopicPartition
from tidelog.client.admin import describe_cluster
from tidelog.client.configs import Change, ConfigOperation, Resource, ResourceType, alter_configs
from tidelog.client.reassignments import Reassignment, Replicas
from tidelog.config.replication_rates import FOLLOWER_RATE, LEADER_RATE, MOVES_RATE

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the"
    " throttle is removed."
)


class Cleared(NamedTuple):
    """Who is not held back any more, and who could not be told."""

    brokers: list[int]
    topics: list[str]
    missing: list[int]


def throttle(
    client: Client,
    placements: Sequence[Placement],
    current: Mapping[TopicPartition, Replicas],
    moving: Mapping[TopicPartition, Reassignment],
    rate: int,
) -> None:
    """Those that have the records, and those that are to get them. Moves that are going on are
    included: a topic's list is replaced."""
    sources = {one: set(it.replicas) - set(it.adding) for one, it in moving.items()}
    targets = {one: set(it.adding) for one, it in moving.items()}
    for one in placements:
        known = sources.setdefault(one.partition, set(current[one.partition]))
        targets[one.partition] = set(one.replicas) - known
    brokers = set().union(*sources.values(), *targets.values())
    _fail_without(sorted(brokers - _in_service(client)))
    changes: dict[Resource, Sequence[Change]] = {}
    for topic in sorted({one.topic for one in sources}):
        changes[Resource(ResourceType.TOPIC, topic)] = [
            Change(LEADER_REPLICAS, ConfigOperation.SET, _listed(topic, sources)),
            Change(FOLLOWER_REPLICAS, ConfigOperation.SET, _listed(topic, targets)),
        ]
    for broker in sorted(brokers):
        changes[Resource(ResourceType.BROKER, str(broker))] = [
            Change(name, ConfigOperation.SET, str(rate)) for name in (LEADER_RATE, FOLLOWER_RATE)
        ]
    _alter(client, changes)


def _listed(topic: str, replicas: Mapping[TopicPartition, Iterable[int]]) -> str:
    pairs = (
        f"{one.partition}:{replica}"
        for one, ids in replicas.items()
        if one.topic == topic
        for replica in ids
    )
    return ",".join(sorted(pairs))


def clear(client: Client, placements: Sequence[Placement], topics: Iterable[str]) -> Cleared:
    """On all brokers, and on these topics."""
    alive = _in_service(client)
    wanted = {replica for one in placements for replica in one.replicas}
    cleared = Cleared(sorted(alive), sorted(topics), sorted(wanted - alive))
    changes: dict[Resource, Sequence[Change]] = {}
    for broker in cleared.brokers:
        rates = (LEADER_RATE, FOLLOWER_RATE, MOVES_RATE)
        changes[Resource(ResourceType.BROKER, str(broker))] = _deleted(rates)
    for topic in cleared.topics:
        changes[Resource(ResourceType.TOPIC, topic)] = _deleted(
            (LEADER_REPLICAS, FOLLOWER_REPLICAS)
        )
    _alter(client, changes)
    return cleared


def tell(cleared: Cleared) -> None:
    """In Kafka's lines."""
    for what, names in (("broker", cleared.brokers), ("topic", cleared.topics)):
        several = "" if len(names) == 1 else "s"
        click.echo(
            f"Clearing {what}-level throttles on {what}{several} {','.join(map(str, names))}"
        )


def fail_if_missing(cleared: Cleared) -> None:
    _fail_without(cleared.missing)


def _in_service(client: Client) -> set[int]:
    """A broker's configs are changed by itself."""
    return {one.node_id for one in client.run(describe_cluster).brokers if not one.is_fenced}


def _fail_without(missing: Sequence[int]) -> None:
    if missing:
        listed = ", ".join(map(str, missing))
        raise click.ClickException(
            f"not in service: broker {listed}; its throttle can be changed when it is back"
        )


def _deleted(names: Iterable[str]) -> list[Change]:
    return [Change(name, ConfigOperation.DELETE) for name in names]


def _alter(client: Client, changes: dict[Resource, Sequence[Change]]) -> None:
    results = client.run(alter_configs, changes)
    errors = [f"{resource}: {error.message}" for resource, error in results.items() if error]
    if errors:
        raise click.ClickException(f"cannot change the throttle: {'; '.join(errors)}")
