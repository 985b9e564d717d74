"""Connections that a node makes to others, and what it asks them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tidelog.env import Now
from tidelog.errors import PeerFailure
from tidelog.events import (
    Answered,
    CloseConnection,
    Connect,
    Connected,
    ConnectFailed,
    ConnectionId,
    Disconnected,
    Effect,
    Send,
)
from tidelog.runtime.schedule import Schedule
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.request import decode_response, encode_request

log = logging.getLogger("tidelog.peers")

PROBE_TIMEOUT_MS = 1000
PEERS_MAX = 100
"""Beyond it those without a connection are forgotten: nobody may have their address any more."""

Then = Callable[[Message | PeerFailure, Now], None]
Probed = Callable[[bool, Now], None]
"""Whether the peer's machine said that nobody listens."""


class Asked(NamedTuple):
    """A request without an answer."""

    correlation_id: int
    key: ApiKey
    version: int
    deadline_ms: int
    then: Then


class Peer:
    """One connection to a listener of another node, made when it is needed. Answers come in the
    order of the requests. Where it breaks, all that was asked has failed; the next request makes
    another.

    Every API is spoken in the newest version: nodes of a cluster are of one age, and Apache
    Kafka's do the same (its followers never ask for versions).
    """

    def __init__(self, peers: Peers, host: str, port: int, client_id: str) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._peers = peers
        self._connection: ConnectionId | None = None
        self._is_connected = False
        self._asked: deque[Asked] = deque()
        self._unsent: list[list[Any]] = []
        """Requests that wait for the connection."""
        self._correlation_id = 0
        self._timer_ms: int | None = None

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, or about to be."""
        return self._connection is not None

    @property
    def in_flight(self) -> int:
        return len(self._asked)

    def send(self, request: Message, then: Then, now: Now, timeout_ms: int) -> None:
        """Ask; then is called once, later than this call, with the answer or why there is none."""
        key, version = self._transmit(request)
        deadline_ms = now.monotonic_ms + timeout_ms
        self._asked.append(Asked(self._correlation_id, key, version, deadline_ms, then))
        self._wake_at(deadline_ms)

    def tell(self, request: Message) -> None:
        """What has no answer: Produce with acks=0. Nobody knows whether it arrives."""
        self._transmit(request)

    def _transmit(self, request: Message) -> tuple[ApiKey, int]:
        key = request.API_KEY
        assert key is not None
        version = APIS[key].versions[1] - APIS[key].latest_is_unstable
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        # All that nodes ask each other is small: a piece to send costs more than to copy it.
        parts = [b"".join(encode_request(request, version, self._correlation_id, self.client_id))]
        if self._connection is None:
            self._connection = self._peers.connect(self)
        if self._is_connected:
            self._peers.effects.append(Send(self._connection, parts))
        else:
            self._unsent.append(parts)
        return key, version

    def close(self, now: Now) -> None:
        """Hang up; who waits is told that the connection broke."""
        if self._connection is not None:
            self._peers.effects.append(CloseConnection(self._connection, "no longer needed"))
            self.failed(PeerFailure.LOST, now)

    def connected(self) -> None:
        assert self._connection is not None
        self._is_connected = True
        unsent, self._unsent = self._unsent, []
        self._peers.effects += [Send(self._connection, parts) for parts in unsent]

    def answered(self, frame: memoryview, now: Now) -> None:
        if not self._asked:
            self._hang_up("it sent an answer to no request", now)
            return
        asked = self._asked[0]
        try:
            answer = decode_response(frame, asked.key, asked.version, asked.correlation_id)
        except DecodeError as error:
            self._hang_up(str(error), now)
            return
        self._asked.popleft()
        asked.then(answer, now)

    def failed(self, failure: PeerFailure, now: Now) -> None:
        """The connection is gone, or never came to be."""
        if self._connection is not None:
            self._peers.forget(self._connection)
        self._connection, self._is_connected = None, False
        asked, self._asked = self._asked, deque()
        self._unsent = []
        for one in asked:
            one.then(failure, now)

    def _hang_up(self, reason: str, now: Now, failure: PeerFailure = PeerFailure.LOST) -> None:
        assert self._connection is not None
        self._peers.effects.append(CloseConnection(self._connection, f"{self}: {reason}"))
        self.failed(failure, now)

    def _wake_at(self, time_ms: int) -> None:
        """One timer a peer, however many requests: it looks at all that are left."""
        if self._timer_ms is None or time_ms < self._timer_ms:
            self._timer_ms = time_ms
            self._peers.schedule.at(time_ms, partial(self._expire, time_ms))

    def _expire(self, time_ms: int, now: Now) -> None:
        if time_ms != self._timer_ms:
            return  # an earlier one has taken its place
        self._timer_ms = None
        if not self._asked:
            return
        deadline_ms = min(asked.deadline_ms for asked in self._asked)
        if deadline_ms <= now.monotonic_ms:
            # What it would say later could be taken for an answer to something else.
            self._hang_up("it does not answer", now, PeerFailure.TIMED_OUT)
        if self._asked:
            self._wake_at(min(asked.deadline_ms for asked in self._asked))


class Peers:
    """All connections that this node makes."""

    def __init__(self, effects: list[Effect], schedule: Schedule) -> None:
        self.effects = effects
        self.schedule = schedule
        self._peers: dict[tuple[str, int, str, str], Peer] = {}
        self._open: dict[ConnectionId, Peer] = {}
        self._probes: dict[ConnectionId, Probed] = {}
        self._last_id = 0

    def peer(self, host: str, port: int, client_id: str, purpose: str = "") -> Peer:
        """The one to this listener for this purpose: who must not wait for others' answers has a
        connection of its own."""
        key = host, port, client_id, purpose
        found = self._peers.get(key)
        if found is None:
            if len(self._peers) >= PEERS_MAX:
                self._peers = {key: peer for key, peer in self._peers.items() if peer.is_open}
            found = self._peers[key] = Peer(self, host, port, client_id)
        return found

    def probe(self, host: str, port: int, then: Probed, now: Now) -> None:
        """Ask a machine whether anybody listens at a port (ADR 9)."""
        self._last_id -= 1
        connection = self._last_id
        self._probes[connection] = then
        self.effects.append(Connect(connection, host, port))
        self.schedule.at(
            now.monotonic_ms + PROBE_TIMEOUT_MS, partial(self._probed, connection, False)
        )

    def connect(self, peer: Peer) -> ConnectionId:
        self._last_id -= 1
        self._open[self._last_id] = peer
        self.effects.append(Connect(self._last_id, peer.host, peer.port))
        return self._last_id

    def forget(self, connection: ConnectionId) -> None:
        self._open.pop(connection, None)

    def step(self, event: Connected | ConnectFailed | Answered | Disconnected, now: Now) -> None:
        """What happened to one of them."""
        if event.connection in self._probes:
            was_refused = isinstance(event, ConnectFailed) and event.was_refused
            self._probed(event.connection, was_refused, now)
            return
        peer = self._open.get(event.connection)
        if peer is None:
            return  # we hung up before
        match event:
            case Connected():
                peer.connected()
            case Answered(_, frame):
                peer.answered(frame, now)
            case Disconnected():
                peer.failed(PeerFailure.LOST, now)
            case ConnectFailed(_, was_refused):
                peer.failed(PeerFailure.REFUSED if was_refused else PeerFailure.LOST, now)

    def _probed(self, connection: ConnectionId, was_refused: bool, now: Now) -> None:
        then = self._probes.pop(connection, None)
        if then is not None:
            if not was_refused:
                self.effects.append(CloseConnection(connection, "a probe"))
            then(was_refused, now)
