"""The client on plain sockets: every call returns when its operation is done.

One connection a broker is kept and used again. A client belongs to one thread; after a fork
the child's copy opens connections of its own.
"""

from __future__ import annotations

import os
import random
import select
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidelog.client.cluster import Cluster
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import Address, ClientError, ConnectionFailed, TimedOut
from tidelog.client.settings import ClientSettings
from tidelog.client.steps import Abandon, Ask, Effect, Finish, Pause, Reply, Start, Steps

P = ParamSpec("P")
T = TypeVar("T")

BUFFERS_MAX = 512
"""Of one sendmsg; the kernel's limit is 1024."""


def now_ms() -> int:
    """Monotonic."""
    return time.monotonic_ns() // 1_000_000


class Channel:
    """One connection and the replies that arrived on it."""

    def __init__(self, address: Address, settings: ClientSettings, timeout_ms: int) -> None:
        self.connection = BrokerConnection(
            address, settings.client_id, answer_bytes_max=settings.answer_bytes_max
        )
        self.deadline_ms = now_ms() + timeout_ms
        self.failure: ClientError | None = None
        self.replies: dict[int, Reply] = {}
        """By correlation id: what arrived before somebody waited for it."""
        self.abandoned: set[int] = set()
        try:
            self.socket = socket.create_connection(address, timeout_ms / 1000)
        except TimeoutError:
            reason = f"no connection within {timeout_ms} ms"
            raise ConnectionFailed(address, reason) from None
        except OSError as error:
            raise ConnectionFailed(address, _reason(error)) from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def negotiate(self) -> None:
        """Ask the broker for its versions."""
        self._write(self.deadline_ms)
        while not self.connection.is_ready:
            self._receive(self.deadline_ms)
            self._write(self.deadline_ms)

    def send(self, ask: Ask, deadline_ms: int) -> int:
        """Write a request; its correlation id."""
        correlation_id = self.connection.send(
            ask.request, version_max=ask.version_max, expects_answer=ask.expects_answer
        )
        if not ask.expects_answer:
            self.replies[correlation_id] = None
        self._write(deadline_ms)
        return correlation_id

    def reply_to(self, correlation_id: int, deadline_ms: int) -> Reply:
        """Wait for a reply; what arrives before it is kept for those who ask for it."""
        while correlation_id not in self.replies:
            self._receive(deadline_ms)
        return self.replies.pop(correlation_id)

    def is_usable(self) -> bool:
        """Whether the peer has not closed it while nobody looked."""
        if self.failure is not None:
            return False
        if self.connection.in_flight:
            return True
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def close(self, failure: ClientError) -> None:
        """Nobody gets a reply any more."""
        self.failure = self.failure or failure
        self.socket.close()

    def _write(self, deadline_ms: int) -> None:
        buffers = [memoryview(part) for part in self.connection.take_outgoing() if len(part)]
        try:
            while buffers:
                self._set_timeout(deadline_ms)
                written = self.socket.sendmsg(buffers[:BUFFERS_MAX])
                while buffers and written >= len(buffers[0]):
                    written -= len(buffers.pop(0))
                if written:
                    buffers[0] = buffers[0][written:]
        except OSError as error:
            raise self._failed(error) from None

    def _receive(self, deadline_ms: int) -> None:
        try:
            self._set_timeout(deadline_ms)
            count = self.socket.recv_into(self.connection.buffer())
        except OSError as error:
            raise self._failed(error) from None
        if not count:
            failure = self.connection.closed_by_peer()
            self.close(failure)
            raise failure
        try:
            answers = self.connection.received(count)
        except ClientError as error:
            self.close(error)
            raise
        for answer in answers:
            if answer.correlation_id in self.abandoned:
                self.abandoned.discard(answer.correlation_id)
            else:
                self.replies[answer.correlation_id] = answer.message

    def _set_timeout(self, deadline_ms: int) -> None:
        # Even past the deadline what has arrived already is taken.
        self.socket.settimeout(max(deadline_ms - now_ms(), 1) / 1000)

    def _failed(self, error: OSError) -> ClientError:
        """A reply that comes too late would be taken for another's, so the connection goes."""
        address = self.connection.address
        failure: ClientError
        if isinstance(error, TimeoutError):
            failure = TimedOut(f"{address}: no answer in time")
        else:
            failure = ConnectionFailed(address, _reason(error))
        self.close(failure)
        return failure


class Ticket:
    """A started request."""

    __slots__ = ("channel", "correlation_id", "deadline_ms", "failure")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.channel: Channel | None = None
        self.correlation_id = -1
        self.failure: ClientError | None = None


class Client:
    """Runs operations, which the modules of this package define, on kept connections."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, now_ms, random.random)
        self._channels: dict[Address, Channel] = {}
        self._tickets: dict[int, Ticket] = {}
        self._next_ticket = 0
        self._process_id = os.getpid()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(
        self,
        operation: Callable[Concatenate[Cluster, P], Steps[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The operation's result; ClientError and its kinds say what went wrong."""
        if os.getpid() != self._process_id:
            self._forget_parent()
        steps = operation(self.cluster, *args, **kwargs)
        outcome: Any = None
        try:
            while True:
                outcome = self._perform(steps.send(outcome))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        for channel in self._channels.values():
            channel.close(ConnectionFailed(channel.connection.address, "the client was closed"))
        self._channels.clear()

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Start(ask):
                return self._start(ask)
            case Finish(number):
                return self._finish(self._tickets.pop(number))
            case Abandon(number):
                self._abandon(self._tickets.pop(number))
            case Pause(ms):
                time.sleep(ms / 1000)
        return None

    def _start(self, ask: Ask) -> int:
        ticket = Ticket(now_ms() + ask.timeout_ms)
        try:
            ticket.channel = self._channel(ask.address, ask.timeout_ms)
            ticket.correlation_id = ticket.channel.send(ask, ticket.deadline_ms)
        except ClientError as error:
            ticket.failure = error
        self._next_ticket += 1
        self._tickets[self._next_ticket] = ticket
        return self._next_ticket

    def _finish(self, ticket: Ticket) -> Reply:
        if ticket.failure is not None:
            return ticket.failure
        assert ticket.channel is not None
        replies = ticket.channel.replies
        if ticket.correlation_id in replies:
            return replies.pop(ticket.correlation_id)
        if ticket.channel.failure is not None:
            return ticket.channel.failure
        try:
            return ticket.channel.reply_to(ticket.correlation_id, ticket.deadline_ms)
        except ClientError as error:
            return error

    def _abandon(self, ticket: Ticket) -> None:
        channel = ticket.channel
        if channel is None or ticket.failure is not None:
            return
        if channel.replies.pop(ticket.correlation_id, ticket) is ticket:
            channel.abandoned.add(ticket.correlation_id)

    def _channel(self, address: Address, timeout_ms: int) -> Channel:
        channel = self._channels.get(address)
        if channel is not None and channel.is_usable():
            return channel
        if channel is not None:
            channel.close(channel.connection.closed_by_peer())
        timeout_ms = min(timeout_ms, self.settings.connect_timeout_ms)
        channel = Channel(address, self.settings, timeout_ms)
        try:
            channel.negotiate()
        except ClientError:
            self._channels.pop(address, None)
            raise
        self._channels[address] = channel
        return channel

    def _forget_parent(self) -> None:
        """The parent's sockets are the parent's; closing our copies does not end them."""
        self._process_id = os.getpid()
        self.close()
        self._tickets.clear()


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
