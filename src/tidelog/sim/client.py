"""A client as a program: a state machine like a node, with real frames. What it does it does in
flows: generators that yield what they wait for."""

from __future__ import annotations

import random
from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.events import Effect, Event, FileFailed, Flushed, Received, Ticked, TurnEnded
from tidelog.runtime.peers import Peer
from tidelog.runtime.runtime import Runtime
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidelog.wire.request import Served

TIMEOUT_MS = 4000
RETRY_MS = (20, 300)
"""After an error, at least and at most."""


class Ask(NamedTuple):
    """Yielded by a flow that waits for an answer: a message, or why there is none."""

    peer: Peer
    request: Message
    timeout_ms: int = TIMEOUT_MS


class Sleep(NamedTuple):
    """Yielded by a flow that waits for a time."""

    milliseconds: int


Flow = Generator[Ask | Sleep, Any, Any]


class Led(NamedTuple):
    """A partition as metadata tells of it."""

    topic_id: Uuid
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]


class Client:
    """Many flows over one set of connections, and what it knows of the cluster."""

    def __init__(self, name: str, servers: list[tuple[str, int]], rng: random.Random) -> None:
        self.name = name
        self.rng = rng
        self.now = Now(0, 0)
        self.brokers: dict[int, tuple[str, int]] = {}
        self.partitions: dict[tuple[str, int], Led] = {}
        self._leader_epochs: dict[tuple[Uuid, int], int] = {}
        """The last that was heard of each, also of those whose leader is forgotten: as Kafka's
        clients do, so that a leader of old, which does not know its place, does not tell them
        that their positions are beyond its log."""
        self._servers = servers
        self._runtime = Runtime(rng)
        self._starting: list[Flow] = []

    def __repr__(self) -> str:
        return self.name

    @property
    def next_deadline_ms(self) -> int:
        return self._runtime.alarm.time_ms

    waits_for_more = False

    def served_at(self, listener: str) -> Served:
        raise AssertionError("a client does not listen")

    def step(self, event: Event, now: Now) -> list[Effect]:
        self.now = now
        starting, self._starting = self._starting, []
        for flow in starting:
            self._go(flow, None, now)
        if isinstance(event, Ticked):
            self._runtime.tick(now)
        else:
            assert not isinstance(event, Received | Flushed | FileFailed | TurnEnded)
            self._runtime.peers.step(event, now)
        effects = list(self._runtime.effects)
        self._runtime.effects.clear()
        return effects

    def start(self, flow: Flow) -> None:
        """From the next step on."""
        self._starting.append(flow)

    def spawn(self, flow: Flow) -> None:
        """At once, from within a flow."""
        self._go(flow, None, self.now)

    def after(self, milliseconds: int, flow: Flow) -> None:
        at_ms = self.now.monotonic_ms + milliseconds
        self._runtime.schedule.at(at_ms, partial(self._go, flow, None))

    def _go(self, flow: Flow, result: Any, now: Now) -> None:
        try:
            wait = flow.send(result)
        except StopIteration:
            return
        if isinstance(wait, Ask):
            wait.peer.send(wait.request, partial(self._go, flow), now, wait.timeout_ms)
        else:
            at_ms = now.monotonic_ms + wait.milliseconds
            self._runtime.schedule.at(at_ms, partial(self._go, flow, None))

    # Whom to ask.

    def peer(self, host: str, port: int, purpose: str = "") -> Peer:
        return self._runtime.peers.peer(host, port, f"{self.name}{purpose}")

    def some_server(self) -> Peer:
        """Any: for what every broker answers or forwards."""
        return self.peer(*self.rng.choice(self._servers))

    def leader_of(self, topic: str, index: int, purpose: str = "") -> Peer | None:
        """The leader, if it is known and alive."""
        led = self.partitions.get((topic, index))
        address = None if led is None else self.brokers.get(led.leader)
        return None if address is None else self.peer(*address, purpose)

    def pause(self) -> Sleep:
        """Between two tries."""
        return Sleep(self.rng.randint(*RETRY_MS))

    def refresh(self, topics: list[str]) -> Flow:
        """Ask somebody about topics; whether there was an answer."""
        asked = tuple(MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in topics)
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = yield Ask(self.some_server(), request, timeout_ms=1000)
        if isinstance(answer, PeerFailure):
            return False
        assert isinstance(answer, MetadataResponse)
        self.brokers |= {b.node_id: (b.host, b.port) for b in answer.brokers}
        for topic in answer.topics:
            self._learn(topic)
        return True

    def _learn(self, topic: MetadataResponseTopic) -> None:
        assert topic.name is not None
        if topic.error_code != ErrorCode.NONE:
            gone = [key for key in self.partitions if key[0] == topic.name]
            for key in gone:
                del self.partitions[key]
        for found in topic.partitions:
            key = topic.name, found.partition_index
            place = topic.topic_id, found.partition_index
            if found.leader_epoch < self._leader_epochs.get(place, -1):
                continue  # of a broker that is behind
            self._leader_epochs[place] = found.leader_epoch
            led = Led(topic.topic_id, found.leader_id, found.leader_epoch, found.replica_nodes)
            self.partitions[key] = led
