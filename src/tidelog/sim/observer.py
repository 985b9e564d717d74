"""Sees every step: writes the trace and has the invariants checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.events import ConnectionId, Event
from tidelog.node import Node
from tidelog.replica.partition import Partition
from tidelog.sim.counters import Counters
from tidelog.sim.machine import LOST_POWER, NEW_DISK, Machine
from tidelog.sim.replicas import ReplicaInvariants
from tidelog.sim.trace import Trace
from tidelog.sim.words import Words

Ended = Callable[[Machine], None]


class Observer:
    """Implements Watch."""

    def __init__(self, trace: Trace, counters: Counters) -> None:
        self.trace = trace
        self.replicas = ReplicaInvariants(counters)
        self.on_end: Ended | None = None
        """Who is to be told that a process is gone."""
        self.words: Words | None = None
        self._numbers: dict[str, int] = {}

    def before_step(self, machine: Machine, event: Event, frame: memoryview | None) -> None:
        number = self._numbers.setdefault(machine.name, len(self._numbers))
        self.trace.step(number, event, frame)
        if self.trace.is_shown:
            self.trace.show(f"{machine.name} {event!r:.200}")

    def after_step(self, machine: Machine) -> None:
        if self.words is not None and self.words.failure is not None:
            raise self.words.failure
        self.replicas.stepped(machine.name, machine.disk, partitions(machine))

    def sent(self, machine: Machine, connection: ConnectionId, frame: bytes) -> None:
        """Nothing leaves too early."""

    def started(self, machine: Machine) -> None:
        self.replicas.started(machine.name, machine.disk, partitions(machine))

    def ended(self, machine: Machine, reason: str) -> None:
        self.trace.say(f"{machine.name} {reason}")
        if reason in (LOST_POWER, NEW_DISK):
            self.replicas.lost(machine.name, machine.disk, reason)
        if self.on_end is not None:
            self.on_end(machine)


def partitions(machine: Machine) -> Iterable[Partition]:
    """That its broker hosts, if it is a broker."""
    node = machine.program
    return node.broker.hosting.by_id.values() if isinstance(node, Node) else ()
