"""Sees every step: writes the trace and has the invariants checked."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.events import (
    Answered,
    ConnectFailed,
    ConnectionId,
    Disconnected,
    Event,
    FileFailed,
    Received,
    TurnEnded,
)
from tidelog.node import Node
from tidelog.runtime.metadata import Metadata
from tidelog.sim.check_quorum import CheckQuorum
from tidelog.sim.counters import Counters
from tidelog.sim.describe import Readable
from tidelog.sim.fetches import FetchInvariants, Hosted
from tidelog.sim.isr_changes import IsrChangeInvariants, Overheard
from tidelog.sim.low_watermarks import LowWatermarks
from tidelog.sim.machine import LOST_POWER, NEW_DISK, STOPPED, Machine
from tidelog.sim.metadata import MetadataInvariants
from tidelog.sim.quorum import QuorumInvariants
from tidelog.sim.replicas import ReplicaInvariants
from tidelog.sim.trace import Trace
from tidelog.sim.view import hosted_by, incarnation_of, metadata_of, node_of
from tidelog.sim.violation import require
from tidelog.sim.words import Words

Ended = Callable[[Machine], None]


class Observer:
    """Implements Watch."""

    def __init__(self, trace: Trace, counters: Counters) -> None:
        self.trace = trace
        self.replicas = ReplicaInvariants(counters)
        self.isr_changes = IsrChangeInvariants(counters)
        self.metadata = MetadataInvariants(self.replicas, self.isr_changes, counters, trace)
        self.quorum = QuorumInvariants(counters)
        self.fetches = FetchInvariants(counters)
        self._low_watermarks = LowWatermarks()
        self._check_quorum = CheckQuorum()
        self.client_requests = 0
        self.on_end: Ended | None = None
        """Who is to be told that a process is gone."""
        self.words: Words | None = None
        self._numbers: dict[str, int] = {}
        self._nodes: dict[str, tuple[Metadata, Hosted, Node]] = {}
        """What the invariants look at in those that run, by their machines."""
        self._readable = Readable()
        self._counters = counters
        self._turn_of: Node | None = None
        """Whose turn ends with the present step."""

    def before_step(self, machine: Machine, event: Event, frame: memoryview | None) -> None:
        number = self._numbers.get(machine.name)
        if number is None:
            number = self._numbers[machine.name] = len(self._numbers)
        self.trace.step(number, event, frame)
        if self.trace.is_shown:
            self._show(machine, event, frame)
        if type(event) is Received:
            self.quorum.received(machine.name, event)
            self._check_quorum.received(machine.name, event, self.trace.now_us)
            found = self._nodes.get(machine.name)
            if found is not None:
                self.fetches.received(machine.name, found[1], found[0].image, event)
                self._low_watermarks.received(machine.name, event)
        elif type(event) is Answered:
            self.isr_changes.answered(machine.name, event.connection, event.frame)
        elif type(event) is Disconnected:
            self.isr_changes.disconnected(machine.name, event.connection)
        elif type(event) is TurnEnded:
            node = self._nodes[machine.name][2]
            self._turn_of = node
            woken = node.broker.woken if node.config.is_broker else ()
            if any(fetch.session.is_follower for fetch in woken):
                self._counters.reached("a follower waited for the end of a turn")

    def after_step(self, machine: Machine) -> None:
        if self.words is not None and self.words.failure is not None:
            raise self.words.failure
        found = self._nodes.get(machine.name)
        if found is not None:
            metadata, hosted, node = found
            self.quorum.stepped(machine.name, machine.disk, metadata.raft)
            self._check_quorum.stepped(machine.name, metadata.raft, self.trace.now_us)
            require(
                metadata.image.offset < self.quorum.ledger.high_watermark,
                "what is shown is committed",
                lambda: f"{machine.name} shows {metadata.image.offset}",
            )
            # First what was decided: it says which leader may lack records.
            self.metadata.stepped(machine.name, metadata.image)
            self.replicas.stepped(machine.name, machine.disk, hosted.values())
            self.isr_changes.stepped(machine.name, hosted)
            self.fetches.stepped(machine.name)
            self._low_watermarks.stepped(machine.name, hosted, metadata.image)
            if self._turn_of is node:
                self._turn_of = None
                require(
                    not node.waits_for_more,
                    "a node waits for the end of one turn",
                    lambda: f"{machine.name} waits on after it",
                )
            grown = self.replicas.grown[machine.name]
            lives_on = machine.process is not None and machine.process.is_alive
            if grown and lives_on and not node.waits_for_more:
                self.fetches.check_told(machine.name, grown)
                grown.clear()

    def _show(self, machine: Machine, event: Event, frame: memoryview | None) -> None:
        if isinstance(event, Received) and frame is not None:
            self._readable.received(machine.name, event.connection, frame)
        elif isinstance(event, Disconnected | ConnectFailed | FileFailed):
            self.trace.show(f"{machine.name} {event}")

    def sent(self, machine: Machine, connection: ConnectionId, frame: bytes) -> None:
        if self.trace.is_shown:
            assert machine.process is not None
            peer = machine.process.peer(connection)
            words = self._readable.sent(machine.name, connection, frame)
            self.trace.show(f"{machine.name} -> {peer} {words}")
        found = self._nodes.get(machine.name)
        if found is None:
            self.client_requests += 1
        else:
            self.quorum.sent(machine.name, machine.disk, connection, frame)
            self.fetches.sent(machine.name, found[1], connection, frame)
            assert machine.process is not None
            self.isr_changes.sent(machine.name, connection, frame, machine.process.is_open)

    def started(self, machine: Machine) -> None:
        node = node_of(machine)
        if node is not None:
            metadata, hosted = metadata_of(node), hosted_by(node)
            self._nodes[machine.name] = metadata, hosted, node
            self.quorum.started(machine.name, machine.disk, metadata.raft)
            self.metadata.started(machine.name, incarnation_of(node))
            self.replicas.started(machine.name, machine.disk, hosted.values())
            channel = node.broker.controller if node.config.is_broker else None
            if channel is not None and channel.local is not None:
                channel.local = Overheard(channel.local, machine.name, self.isr_changes)

    def ended(self, machine: Machine, reason: str) -> None:
        self.trace.say(f"{machine.name} {reason}")
        self._nodes.pop(machine.name, None)
        self.quorum.ended(machine.name)
        self._check_quorum.ended(machine.name)
        self.fetches.ended(machine.name)
        self.isr_changes.ended(machine.name)
        self.metadata.ended(machine.name, is_clean=reason == STOPPED)
        if reason in (LOST_POWER, NEW_DISK):
            self.quorum.lost(machine.name, machine.disk, is_new_disk=reason == NEW_DISK)
            self.replicas.lost(machine.name, machine.disk, reason)
        if reason == NEW_DISK:
            self.metadata.got_new_disk(machine.name)
        if self.on_end is not None:
            self.on_end(machine)
