"""How a broker asks the active controller: of the same node, or of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidelog.env import Now
from tidelog.errors import PeerFailure
from tidelog.runtime.answers import Answer
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.request import Request

Then = Callable[[Message | PeerFailure, Now], None]


class LocalController(Protocol):
    """The controller of this node."""

    def handle(self, request: Request, now: Now, forwarder: int) -> Answer | Slices[Answer]:
        """What a broker's client asked for."""

    def ask(self, message: Message, then: Callable[[Message, Now], None], now: Now) -> None:
        """What the broker itself asks for."""

    def in_turn(self, decide: Callable[[], Slices[None]]) -> Slices[None]: ...


class ControllerChannel:
    """The way to the active controller."""

    def __init__(self, node_id: int, local: LocalController) -> None:
        self._node_id = node_id
        self._local = local

    def forward(self, request: Request, now: Now) -> Answer | Slices[Answer]:
        """A client's request that only the active controller can answer."""
        return self._local.handle(request, now, self._node_id)

    def ask(self, message: Message, then: Then, now: Now) -> None:
        self._local.ask(message, then, now)

    def in_turn(self, decide: Callable[[], Slices[None]]) -> Slices[None]:
        return self._local.in_turn(decide)
