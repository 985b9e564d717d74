"""What invariants look at inside a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.node import Node
from tidelog.replica.partition import Partition
from tidelog.runtime.metadata import Metadata
from tidelog.sim.machine import Machine
from tidelog.types import Uuid


def node_of(machine: Machine) -> Node | None:
    """The node that it runs, if it runs one."""
    program = machine.program
    return program if isinstance(program, Node) else None


def hosted_by(node: Node) -> Mapping[tuple[Uuid, int], Partition]:
    """The partitions of its broker, if it is a broker."""
    return node.broker.hosting.by_id if node.config.is_broker else {}


def partitions_of(node: Node) -> Iterable[Partition]:
    return hosted_by(node).values()


def metadata_of(node: Node) -> Metadata:
    return node.broker.metadata if node.config.is_broker else node.controller.metadata


def incarnation_of(node: Node) -> Uuid | None:
    """Of its broker, if it is one."""
    return node.broker.lifecycle.incarnation_id if node.config.is_broker else None
