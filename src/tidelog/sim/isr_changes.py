"""Invariants of how leaders ask the controller for other ISRs (AlterPartition), by what they send
and are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import ConnectionId
from tidelog.metadata.image import PartitionState
from tidelog.replica.isr import Brokers
from tidelog.runtime.answers import Answer
from tidelog.runtime.controller_channel import LocalController
from tidelog.sim.counters import Counters
from tidelog.sim.fetches import Hosted
from tidelog.sim.history import Place
from tidelog.sim.violation import Violation, require
from tidelog.slices import Slices
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.request import Request, decode_any, decode_response

KEY = ApiKey.ALTER_PARTITION
KEY_BYTES = int(KEY).to_bytes(2, "big")
SERVED = {int(KEY): APIS[KEY].versions}
HERE: ConnectionId = 0
"""Stands for the way to the controller of the same node."""
ANSWERED = (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""After these everybody knows whether the ISR is what was asked for; after any other answer, or
none, the controller may have made it so, now or at an earlier try."""


class Change(NamedTuple):
    """What a leader has asked for."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]
    """Brokers, and the epochs that the leader knows them by; -1 is none."""

    @property
    def isr(self) -> set[int]:
        return {broker_id for broker_id, _ in self.members}


class InFlight(NamedTuple):
    """A request without an answer."""

    connection: ConnectionId
    request: Request
    changes: dict[Place, Change]


class IsrChangeInvariants:
    """All leaders of all machines."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._in_flight: dict[str, InFlight] = {}
        self._unknown: dict[str, dict[Place, Change]] = {}
        """What each machine has asked for and nobody there can know what became of it."""
        self._asked: dict[tuple[Place, int, int], Change] = {}
        """All that was ever asked, by leader epoch and partition epoch."""

    # What leaders send, and what they are told.

    def sent(
        self,
        machine: str,
        connection: ConnectionId,
        frame: bytes,
        is_open: Callable[[ConnectionId], bool],
    ) -> None:
        if connection > 0 or frame[4:6] != KEY_BYTES:
            return
        before = self._in_flight.get(machine)
        if before is not None and before.connection != HERE and not is_open(before.connection):
            self._lost(machine)  # it has hung up in this very step
        self._ask(machine, connection, decode_any(memoryview(frame)[4:], SERVED))

    def answered(self, machine: str, connection: ConnectionId, frame: memoryview) -> None:
        asked = self._in_flight.get(machine)
        if asked is None or asked.connection != connection:
            return
        key, version, correlation_id = asked.request[:3]
        if int.from_bytes(frame[:4], "big") == correlation_id:
            self._answer(machine, decode_response(frame, key, version, correlation_id))

    def disconnected(self, machine: str, connection: ConnectionId) -> None:
        asked = self._in_flight.get(machine)
        if asked is not None and asked.connection == connection:
            self._lost(machine)

    def _lost(self, machine: str) -> None:
        """The way to the controller broke: whatever it answers, nobody hears it."""
        del self._in_flight[machine]
        self._counters.reached("a change of an ISR had no answer")

    def asked_here(self, machine: str, message: AlterPartitionRequest) -> None:
        """Of the controller of the same node: no frame shows it."""
        self._ask(machine, HERE, Request(int(KEY), SERVED[int(KEY)][1], 0, None, message))

    def answered_here(self, machine: str, answer: Message) -> None:
        asked = self._in_flight.get(machine)
        if asked is not None and asked.connection == HERE:
            self._answer(machine, answer)

    def ended(self, machine: str) -> None:
        self._in_flight.pop(machine, None)
        self._unknown.pop(machine, None)

    def _ask(self, machine: str, connection: ConnectionId, request: Request) -> None:
        before = self._in_flight.get(machine)
        require(
            before is None,
            "one AlterPartition at a time",
            lambda: f"{machine} asks for {request.message} before the answer to {before}",
        )
        assert isinstance(request.message, AlterPartitionRequest)
        changes = dict(_changes(request.message))
        self._in_flight[machine] = InFlight(connection, request, changes)
        unknown = self._unknown.setdefault(machine, {})
        for place, change in changes.items():
            other = unknown.get(place)
            if other is not None and other != change and other[:2] == change[:2]:
                raise Violation(
                    "one change of an ISR at a time",
                    f"{machine} asks for {change} of {place}, and {other} may be so",
                )
            unknown[place] = self._asked[place, change[0], change[1]] = change

    def _answer(self, machine: str, answer: Message) -> None:
        asked = self._in_flight.pop(machine)
        assert isinstance(answer, AlterPartitionResponse)
        unknown = self._unknown[machine]
        for topic in answer.topics if not answer.error_code else ():
            for one in topic.partitions:
                place = Place(topic.topic_id, one.partition_index)
                if one.error_code == ErrorCode.INELIGIBLE_REPLICA:
                    self._counters.reached("a change of an ISR was refused")
                if one.error_code in ANSWERED and unknown.get(place) == asked.changes.get(place):
                    unknown.pop(place, None)

    # What becomes of it.

    def stepped(self, machine: str, hosted: Hosted) -> None:
        """The leader counts whom it has asked for, as long as the controller may have done it."""
        unknown = self._unknown.get(machine)
        if not unknown:
            return
        for place, change in list(unknown.items()):
            partition = hosted.get(place)
            if (
                partition is None
                or not partition.is_leader
                or (partition.leader_epoch, partition.partition_epoch) != change[:2]
            ):
                del unknown[place]  # the metadata was faster
            elif not change.isr <= set(partition.maximal_isr):
                raise Violation(
                    "a leader counts whom it has asked for",
                    f"{partition} on {machine}: {change}, but counts {partition.maximal_isr}",
                )

    def decided(self, place: Place, state: PartitionState, brokers: Brokers) -> None:
        """Who is in an ISR by a leader's word is the process that the leader knows."""
        change = self._asked.get((place, state.leader_epoch, state.partition_epoch - 1))
        if change is None or change.isr != set(state.isr):
            return
        for broker_id, epoch in change.members:
            registered = brokers.broker_epoch(broker_id)
            if epoch not in (-1, registered):
                raise Violation(
                    "who joins an ISR is the process that caught up",
                    f"{place}: {change}, but broker {broker_id} has epoch {registered}",
                )


def _changes(request: AlterPartitionRequest) -> Iterator[tuple[Place, Change]]:
    for topic in request.topics:
        for one in topic.partitions:
            members = tuple((m.broker_id, m.broker_epoch) for m in one.new_isr_with_epochs)
            change = Change(one.leader_epoch, one.partition_epoch, members)
            yield Place(topic.topic_id, one.partition_index), change


class Overheard:
    """The controller of a node as the same node's broker sees it: what is asked there has no
    frames."""

    def __init__(
        self, controller: LocalController, machine: str, invariants: IsrChangeInvariants
    ) -> None:
        self._controller = controller
        self._machine = machine
        self._invariants = invariants

    @property
    def is_active(self) -> bool:
        return self._controller.is_active

    def handle(self, request: Request, now: Now, forwarder: int) -> Answer | Slices[Answer]:
        return self._controller.handle(request, now, forwarder)

    def ask(self, message: Message, then: Callable[[Message, Now], None], now: Now) -> None:
        if not isinstance(message, AlterPartitionRequest):
            self._controller.ask(message, then, now)
            return

        def answered(answer: Message, now: Now) -> None:
            self._invariants.answered_here(self._machine, answer)
            then(answer, now)

        self._invariants.asked_here(self._machine, message)
        self._controller.ask(message, answered, now)
