"""What a cluster without faults must come to: everybody is in service and in sync, nothing is under
way, and all have the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from tidelog.log.names import LOG, file_name
from tidelog.metadata.image import Broker, MetadataImage, Topic
from tidelog.metadata.sorted_map import SortedMap
from tidelog.node import Node
from tidelog.raft.raft import Raft
from tidelog.raft.types import NOBODY
from tidelog.sim.cluster import Cluster
from tidelog.sim.history import Place
from tidelog.sim.machine import Machine
from tidelog.sim.replicas import ReplicaInvariants
from tidelog.sim.view import metadata_of, node_of, partitions_of
from tidelog.sim.violation import Violation

SETTLED = ("leader", "follower", "observer")
"""Roles in a quorum that works."""


def lacking(cluster: Cluster) -> str | None:
    """What keeps a cluster from being whole; None if nothing does."""
    return next(_lacks(cluster), None)


def _lacks(cluster: Cluster) -> Iterator[str]:
    plan = cluster.plan
    nodes = {node_id: node_of(machine) for node_id, machine in cluster.machines.items()}
    yield from (f"node {node_id} is down" for node_id, node in nodes.items() if node is None)
    up = {node_id: node for node_id, node in nodes.items() if node is not None}
    if len(up) < len(nodes):
        return
    rafts = {node_id: metadata_of(node).raft for node_id, node in up.items()}
    yield from _quorum_lacks(rafts)
    for voter_id in plan.voters:
        if not rafts[voter_id].is_voter:
            yield f"node {voter_id} is no voter"
    images = [metadata_of(node).image for node in up.values()]
    latest = max(images, key=lambda image: image.offset)
    for broker_id in plan.brokers:
        registered = latest.brokers.get(broker_id)
        own = up[broker_id].broker.lifecycle.incarnation_id
        if registered is None or registered.incarnation_id != own or not registered.is_active:
            yield f"broker {broker_id} is not in service"
    yield from _partitions_lack(latest)
    yield from _leaders_lack(up.values())
    if any(image.offset != latest.offset for image in images):
        yield "not all know the same metadata"


def _quorum_lacks(rafts: dict[int, Raft]) -> Iterator[str]:
    for node_id, raft in rafts.items():
        if raft.role_name not in SETTLED or raft.leader_id == NOBODY:
            yield f"node {node_id} is {raft.role_name}, its leader {raft.leader_id}"
    if len({(raft.epoch, raft.leader_id) for raft in rafts.values()}) > 1:
        yield "nodes follow different leaders of the quorum"
    if len({raft.voters for raft in rafts.values()}) > 1:
        yield "nodes know different voters"


def _partitions_lack(image: MetadataImage) -> Iterator[str]:
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            is_complete = state.leader >= 0 and set(state.isr) == set(state.replicas)
            if not is_complete or state.is_reassigning or state.leader_recovery_state:
                yield f"{topic.name}-{index} is {state}"


def _leaders_lack(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        for partition in partitions_of(node) if node.config.is_broker else ():
            followers = partition.followers
            if followers is not None and followers.pending is not None:
                yield f"{partition} waits for the ISR {followers.pending.isr}"
            if partition.is_leader and partition.low_watermark < partition.log.log_start_offset:
                yield f"{partition} has followers that have not deleted what it has"


def check_same(machines: Iterable[Machine], replicas: ReplicaInvariants) -> None:
    """Of a cluster that is whole: the same metadata everywhere, and the same bytes in all
    replicas of a partition."""
    first: tuple[str, MetadataImage] | None = None
    found: dict[Place, tuple[str, dict[int, bytes]]] = {}
    for machine in machines:
        node = node_of(machine)
        assert node is not None
        image = metadata_of(node).image
        if first is None:
            first = machine.name, image
        _check_images(first, machine.name, image)
        for partition in partitions_of(node):
            place = Place(partition.topic_id, partition.index)
            content = _batches(machine, partition.log.path, replicas, place)
            known, theirs = found.setdefault(place, (machine.name, content))
            for base_offset in content.keys() & theirs.keys():
                if content[base_offset] != theirs[base_offset]:
                    raise Violation(
                        "replicas are the same bytes",
                        f"{partition} on {known} and {machine.name}, from offset {base_offset} on",
                    )


def _check_images(first: tuple[str, MetadataImage], name: str, image: MetadataImage) -> None:
    for each in fields(image):
        ours = _plain(getattr(image, each.name))
        theirs = _plain(getattr(first[1], each.name))
        if ours != theirs:
            raise Violation(
                "nodes agree on the metadata",
                f"at offset {image.offset} {name} has {each.name} {ours}, {first[0]} has {theirs}",
            )


def _plain(value: object) -> object:
    """To be compared: maps of images are made to be shared."""
    if isinstance(value, SortedMap):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Topic):
        return value.name, value.topic_id, _plain(value.partitions)
    if isinstance(value, Broker):
        return value._replace(registered_at=-1)  # a snapshot does not say where that was
    return value


def _batches(
    machine: Machine, path: str, replicas: ReplicaInvariants, place: Place
) -> dict[int, bytes]:
    """By their first offsets, as they lie on the disk."""
    log = replicas.ledgers[place].replica(machine.name)
    return {
        one.base_offset: bytes(
            machine.disk.content(f"{path}/{file_name(one.segment, LOG)}")[
                one.position : one.end_position
            ]
        )
        for one in log.entries
        if one.base_offset >= log.start_offset
    }
