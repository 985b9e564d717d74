"""Operations without I/O: generators that yield what a shell shall do, and are sent its outcome.

An operation is a function whose first parameter is the Cluster and that returns Steps:

    client.run(list_offsets, {TopicPartition("orders", 0): EARLIEST})

The blocking shell and the asyncio shell drive the same steps; tests drive them with no socket.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from tidelog.client.errors import Address, ClientError
from tidelog.wire.declare import Message

T = TypeVar("T")


class Ask(NamedTuple):
    """A request to one broker."""

    address: Address
    request: Message
    timeout_ms: int
    """From its start to its answer; connecting is part of it."""
    version_max: int | None = None
    expects_answer: bool = True
    """False for Produce with acks=0: its reply is None as soon as it is written."""


class Start(NamedTuple):
    """Connect if need be, and write the request. Its outcome is a ticket, always: what goes
    wrong comes as the reply."""

    ask: Ask


class Finish(NamedTuple):
    """Wait for a started request's reply. Replies of one broker come in the order of starts."""

    ticket: int


class Abandon(NamedTuple):
    """Nobody waits for this reply any more."""

    ticket: int


class Pause(NamedTuple):
    """Do nothing for a while."""

    ms: int


Effect = Start | Finish | Abandon | Pause
Reply = Message | ClientError | None
Steps = Generator[Effect, Any, T]


def start(ask: Ask) -> Steps[int]:
    """Begin a request; its ticket."""
    ticket: int = yield Start(ask)
    return ticket


def finish(ticket: int) -> Steps[Reply]:
    """The reply to a request that was started."""
    reply: Reply = yield Finish(ticket)
    return reply


def exchange(asks: Sequence[Ask]) -> Steps[list[Reply]]:
    """All requests at once; their replies, in the same order."""
    tickets = []
    for ask in asks:
        tickets.append((yield from start(ask)))
    replies = []
    for ticket in tickets:
        replies.append((yield from finish(ticket)))
    return replies
