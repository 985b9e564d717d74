"""What `tidelog reassign` does and says; the lines are those of Kafka's tool."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tidelog.cli import reassign_throttle
from tidelog.cli.partition_files import Placement, placements_text, read_placements, read_topics
from tidelog.cli.reassign_throttle import Cleared
from tidelog.client import BrokerError, Client, TopicPartition
from tidelog.client.admin import DescribedBroker, describe_cluster
from tidelog.client.reassignments import (
    Reassignment,
    Replicas,
    alter_partition_reassignments,
    list_partition_reassignments,
)
from tidelog.client.topics import describe_topics
from tidelog.controller.decision import Refused
from tidelog.controller.placement import Members, place_replicas

if TYPE_CHECKING:
    from tidelog.cli.reassign import Wanted


def generate(client: Client, wanted: Wanted) -> None:
    """Propose replicas for every partition of topics."""
    assert wanted.topics_to_move_json_file is not None
    assert wanted.broker_list is not None
    members = _members(_brokers(client, wanted.broker_list), wanted.disable_rack_aware)
    topics = read_topics(wanted.topics_to_move_json_file)
    current = _current(client, topics)
    proposed: dict[TopicPartition, Replicas] = {}
    rng = random.SystemRandom()
    for topic in topics:
        partitions = sorted(one for one in current if one.topic == topic)
        try:
            placed = place_replicas(members, len(partitions), len(current[partitions[0]]), rng)
        except Refused as error:
            raise click.ClickException(f"topic {topic}: {error}") from None
        proposed |= dict(zip(partitions, map(tuple, placed), strict=True))
    if wanted.json:
        click.echo(placements_text(proposed))
        return
    click.echo(f"Current partition replica assignment\n{placements_text(current)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{placements_text(proposed)}")


def _brokers(client: Client, listed: str) -> list[DescribedBroker]:
    try:
        ids = [int(part) for part in listed.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{listed!r} is not like 1,2,3", param_hint="--broker-list"
        ) from None
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise click.ClickException(f"Broker list contains duplicate entries: {twice}")
    known = {one.node_id: one for one in client.run(describe_cluster).brokers if not one.is_fenced}
    _require_known(ids, known)
    return [known[one] for one in ids]


def _members(brokers: Sequence[DescribedBroker], disable_rack_aware: bool) -> Members:
    members: dict[str, tuple[list[int], list[int]]] = {}
    racks = [None if disable_rack_aware else one.rack for one in brokers]
    if any(racks) and not all(racks):
        raise click.ClickException(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to"
            " make replica assignment without rack information."
        )
    for broker, rack in zip(brokers, racks, strict=True):
        members.setdefault(rack or "", ([], []))[0].append(broker.node_id)
    return members


def _require_known(ids: Sequence[int], known: dict[int, DescribedBroker]) -> None:
    for one in ids:
        if one not in known:
            listed = ", ".join(map(str, sorted(known)))
            raise click.ClickException(f"Unknown broker id {one}; the brokers are {listed}")


def _current(client: Client, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
    """Where the partitions of topics are."""
    described = client.run(describe_topics, list(dict.fromkeys(topics)))
    missing = [topic for topic in topics if topic not in described]
    if missing:
        raise click.ClickException(
            f"Topic '{missing[0]}' does not exist; `tidelog topics --list` shows them all"
        )
    return {
        TopicPartition(topic, one.partition): one.replicas
        for topic, found in described.items()
        for one in found.partitions
    }


def execute(client: Client, wanted: Wanted) -> None:
    """Begin to move partitions, and say where they were."""
    placements = _placements(wanted)
    ids = [replica for one in placements for replica in one.replicas]
    _require_known(ids, {one.node_id: one for one in client.run(describe_cluster).brokers})
    everything = _current(client, [one.partition.topic for one in placements])
    for one in placements:
        if one.partition not in everything:
            raise click.ClickException(f"Unable to find partition: {one.partition}")
    moving = client.run(list_partition_reassignments)
    if moving and not wanted.additional:
        raise click.ClickException(
            "Cannot execute because there is an existing partition assignment. Use --additional to"
            " override this and create a new partition assignment in addition to the existing one."
            " The --additional flag can also be used to change the throttle by resubmitting the"
            " current reassignment."
        )
    current = {one.partition: everything[one.partition] for one in placements}
    if not wanted.json:
        click.echo(f"Current partition replica assignment\n\n{placements_text(current)}\n")
        click.echo("Save this to use as the --reassignment-json-file option during rollback")
    if wanted.throttle is not None:
        _throttle(client, placements, current, moving, wanted)
    results = client.run(
        alter_partition_reassignments,
        {one.partition: one.replicas for one in placements},
        allow_replication_factor_change=not wanted.disallow_replication_factor_change,
        timeout_ms=wanted.timeout,
    )
    started = [partition for partition, error in results.items() if error is None]
    if wanted.json:
        rollback = json.loads(placements_text(current))
        listed = [one._asdict() for one in sorted(started)]
        _print_json(rollback=rollback, throttle=wanted.throttle, started=listed)
    elif started:
        several = "s" if len(started) > 1 else ""
        click.echo(
            f"Successfully started partition reassignment{several} for"
            f" {','.join(map(str, sorted(started)))}"
        )
    _fail("Error reassigning partition(s)", results)


def _throttle(
    client: Client,
    placements: list[Placement],
    current: dict[TopicPartition, Replicas],
    moving: dict[TopicPartition, Reassignment],
    wanted: Wanted,
) -> None:
    """Before anything begins to move."""
    assert wanted.throttle is not None
    if not wanted.json:
        click.echo(reassign_throttle.WARNING)
    reassign_throttle.throttle(client, placements, current, moving, wanted.throttle)
    if not wanted.json:
        click.echo(f"The inter-broker throttle limit was set to {wanted.throttle} B/s")


def _placements(wanted: Wanted) -> list[Placement]:
    assert wanted.reassignment_json_file is not None
    placements = read_placements(wanted.reassignment_json_file)
    if any(one.names_directories for one in placements):
        click.echo(
            "warning: log_dirs other than any are ignored: brokers choose the directory", err=True
        )
    return placements


def verify(client: Client, wanted: Wanted) -> None:
    """Of each partition whether it is where it should be, or on its way."""
    placements = _placements(wanted)
    moving = client.run(list_partition_reassignments)
    described = client.run(describe_topics, sorted({one.partition.topic for one in placements}))
    current = {
        TopicPartition(topic, one.partition): one.replicas
        for topic, found in described.items()
        for one in found.partitions
    }
    states = []
    for one in placements:
        replicas = current.get(one.partition, ())
        state = "in progress" if one.partition in moving else "completed"
        if state == "completed" and replicas != one.replicas:
            state = "not there"
        states.append((one, state, replicas))
    if not wanted.json:
        click.echo("Status of partition reassignment:")
        for one, state, replicas in states:
            click.echo(_status(one, state, replicas))
        click.echo()
    keeps = wanted.preserve_throttles or bool(moving)  # the others may have one, too
    cleared = None if keeps else reassign_throttle.clear(client, placements, described)
    partitions = [
        {**one.partition._asdict(), "state": state, "replicas": list(replicas)}
        for one, state, replicas in states
    ]
    _tell_cleared(cleared, wanted, partitions=partitions)


def _tell_cleared(cleared: Cleared | None, wanted: Wanted, **content: object) -> None:
    """At the end: what was done is said before what could not be."""
    if wanted.json:
        names = None if cleared is None else {"brokers": cleared.brokers, "topics": cleared.topics}
        _print_json(**content, throttles_cleared=names)
    elif cleared is not None:
        reassign_throttle.tell(cleared)
    if cleared is not None:
        reassign_throttle.fail_if_missing(cleared)


def _status(wanted: Placement, state: str, replicas: Replicas) -> str:
    partition = wanted.partition
    if state == "in progress":
        return f"Reassignment of partition {partition} is still in progress."
    if state == "completed":
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is"
        f" {','.join(map(str, replicas))} rather than {','.join(map(str, wanted.replicas))}."
    )


def cancel(client: Client, wanted: Wanted) -> None:
    """Take back those of a file that are on their way."""
    placements = _placements(wanted)
    moving = client.run(list_partition_reassignments, [one.partition for one in placements])
    results: dict[TopicPartition, BrokerError | None] = {}
    if moving:
        results = client.run(
            alter_partition_reassignments, dict.fromkeys(moving, None), timeout_ms=wanted.timeout
        )
    done = sorted(partition for partition, error in results.items() if error is None)
    if not wanted.json and not moving:
        click.echo("None of the specified partition reassignments are active.")
    elif not wanted.json and done:
        several = "s" if len(done) > 1 else ""
        listed = ",".join(map(str, done))
        click.echo(f"Successfully cancelled partition reassignment{several} for: {listed}")
    is_done = len(done) == len(results)
    if not wanted.json and is_done:
        # Between directories, which is never. Kafka's tool forgets to end this line.
        click.echo("None of the specified partition moves are active.")
    cleared = None
    if is_done and not wanted.preserve_throttles:
        topics = sorted({one.partition.topic for one in placements})
        known = client.run(describe_topics, topics)
        cleared = reassign_throttle.clear(client, placements, known)
    _tell_cleared(cleared, wanted, cancelled=[one._asdict() for one in done])
    _fail("Error cancelling partition reassignment(s)", results)


def show_all(client: Client, wanted: Wanted) -> None:
    """Everything that is on its way."""
    moving = client.run(list_partition_reassignments)
    if wanted.json:
        _print_json(partitions=[{**one._asdict(), **it._asdict()} for one, it in moving.items()])
        return
    if not moving:
        click.echo("No partition reassignments found.")
        return
    click.echo("Current partition reassignments:")
    for partition, one in moving.items():
        line = f"{partition}: replicas: {','.join(map(str, one.replicas))}."
        if one.adding:
            line += f" adding: {','.join(map(str, one.adding))}."
        if one.removing:
            line += f" removing: {','.join(map(str, one.removing))}."
        click.echo(line)


def _fail(what: str, results: dict[TopicPartition, BrokerError | None]) -> None:
    errors = [f"{one}: {error.message}" for one, error in sorted(results.items()) if error]
    if errors:
        raise click.ClickException(f"{what}: {'; '.join(errors)}")


def _print_json(**content: object) -> None:
    click.echo(json.dumps(content, indent=2))
