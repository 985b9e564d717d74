"""How a broker asks the active controller: of the same node, or of another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.runtime.answers import Answer
from tidelog.runtime.peers import Peer
from tidelog.runtime.purgatory import Delayed
from tidelog.runtime.refusals import fitted, refuse
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.request import Request, decode_response, encode_request

RETRY_MS = 50
"""Until the active controller is asked again, or whoever is active then."""
REQUEST_TIMEOUT_MS = 30_000
ANONYMOUS = bytes.fromhex("000005557365720a414e4f4e594d4f55530000")
"""The principal User:ANONYMOUS in Kafka's form: without authentication everybody is."""
LOOPBACK = bytes((127, 0, 0, 1))

Then = Callable[[Message | PeerFailure, Now], None]


class LocalController(Protocol):
    """The controller of this node, active or not."""

    @property
    def is_active(self) -> bool: ...

    def handle(self, request: Request, now: Now, forwarder: int) -> Answer | Slices[Answer]:
        """What a broker's client asked for."""

    def ask(self, message: Message, then: Callable[[Message, Now], None], now: Now) -> None:
        """What the broker itself asks for."""


class Quorum(Protocol):
    """Who knows where the active controller is."""

    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def leader_address(self) -> tuple[str, int] | None: ...


class Waiting:
    """A request on its way, through however many controllers."""

    __slots__ = ("deadline_ms", "message", "purpose", "then")

    def __init__(self, message: Message, then: Then, deadline_ms: int, purpose: str) -> None:
        self.message = message
        self.then = then
        self.deadline_ms = deadline_ms
        self.purpose = purpose


class ControllerChannel:
    """The way to the active controller. A request is repeated until one that is active answers
    it, or its time is up: then the answer is PeerFailure.TIMED_OUT."""

    def __init__(
        self, node_id: int, runtime: Runtime, quorum: Quorum, local: LocalController | None
    ) -> None:
        self._node_id = node_id
        self._runtime = runtime
        self._quorum = quorum
        self.local = local
        """None of a node that is a broker alone."""
        self._unsent: dict[Waiting, None] = {}
        """Requests that wait for an active controller to be known."""
        self._asked: dict[Peer, int] = {}
        """Those that requests went to, by the epoch in which they were the ones to ask."""

    def ask(
        self,
        message: Message,
        then: Then,
        now: Now,
        *,
        purpose: str = "",
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """What this broker itself wants. Requests of one purpose share a connection, and so wait
        for each other's answers."""
        deadline_ms = now.monotonic_ms + timeout_ms
        self._send(Waiting(message, then, deadline_ms, purpose), now)

    def forward(self, request: Request, now: Now) -> Answer | Slices[Answer]:
        """A client's request that only the active controller can answer."""
        if self.local is not None and self.local.is_active:
            return self.local.handle(request, now, self._node_id)
        asked_ms = getattr(request.message, "timeout_ms", REQUEST_TIMEOUT_MS)
        timeout_ms = max(1, min(asked_ms, REQUEST_TIMEOUT_MS))
        delayed = Forwarded(request, now.monotonic_ms + timeout_ms)
        _, *parts = encode_request(
            request.message, request.version, request.correlation_id, request.client_id
        )
        envelope = EnvelopeRequest(
            request_data=b"".join(parts),
            request_principal=ANONYMOUS,
            client_host_address=LOOPBACK,
        )
        self.ask(
            envelope,
            partial(self._unpack, request, delayed),
            now,
            purpose="forwarding",
            timeout_ms=timeout_ms,
        )
        return delayed

    def _unpack(
        self, request: Request, delayed: Delayed, answer: Message | PeerFailure, now: Now
    ) -> None:
        if delayed.is_done:
            return
        if isinstance(answer, EnvelopeResponse) and answer.response_data is not None:
            frame = memoryview(bytes(answer.response_data))
            message = decode_response(frame, request.key, request.version, request.correlation_id)
            self._runtime.purgatory.complete(delayed, message)
        else:
            self._runtime.purgatory.end(delayed, now)

    def leader_changed(self, now: Now) -> None:
        """Somebody else is active, or nobody: what waits goes there. So does what was asked in an
        earlier epoch: that controller's machine may be silent, or have come back without knowing
        of our connection, and would be waited for until the time is up."""
        if self._quorum.leader_address is not None:
            epoch = self._quorum.leader_epoch
            for peer in [peer for peer, asked_in in self._asked.items() if asked_in != epoch]:
                del self._asked[peer]
                peer.close(now)
        unsent, self._unsent = self._unsent, {}
        for waiting in unsent:
            self._send(waiting, now)

    def _send(self, waiting: Waiting, now: Now) -> None:
        left_ms = waiting.deadline_ms - now.monotonic_ms
        address = self._quorum.leader_address
        if left_ms <= 0:
            waiting.then(PeerFailure.TIMED_OUT, now)
        elif self.local is not None and self.local.is_active:
            self.local.ask(waiting.message, partial(self._answered, waiting), now)
        elif address is None or self._quorum.leader_id == self._node_id:
            # Nobody is known, or the one of this node has still to read what others decided.
            self._send_later(waiting, now)
        else:
            peer = self._runtime.peers.peer(*address, str(self._node_id), waiting.purpose)
            self._asked.setdefault(peer, self._quorum.leader_epoch)
            peer.send(waiting.message, partial(self._answered, waiting), now, left_ms)

    def _send_later(self, waiting: Waiting, now: Now) -> None:
        self._unsent[waiting] = None
        self._runtime.schedule.at(
            min(now.monotonic_ms + RETRY_MS, waiting.deadline_ms), partial(self._retry, waiting)
        )

    def _retry(self, waiting: Waiting, now: Now) -> None:
        if waiting in self._unsent:
            del self._unsent[waiting]
            self._send(waiting, now)

    def _answered(self, waiting: Waiting, answer: Message | PeerFailure, now: Now) -> None:
        code: Any = getattr(answer, "error_code", ErrorCode.NONE)
        if isinstance(answer, PeerFailure) or code == ErrorCode.NOT_CONTROLLER:
            self._send_later(waiting, now)
        else:
            waiting.then(answer, now)


class Forwarded(Delayed):
    """An answer that the active controller gives."""

    is_large = True

    def __init__(self, request: Request, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self._request = request

    def expire(self, now: Now) -> Message:
        refused = refuse(self._request.message, ErrorCode.REQUEST_TIMED_OUT)
        return fitted(refused, self._request.version)
