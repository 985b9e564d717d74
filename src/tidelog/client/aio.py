"""The client on asyncio: any number of operations at a time on one event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidelog.client.cluster import Cluster
from tidelog.client.connection import IN_FLIGHT_MAX, BrokerConnection
from tidelog.client.errors import Address, ClientError, ConnectionFailed, TimedOut
from tidelog.client.settings import ClientSettings
from tidelog.client.steps import Abandon, Ask, Effect, Finish, Pause, Reply, Start, Steps
from tidelog.wire.declare import Message

P = ParamSpec("P")
T = TypeVar("T")


class Channel(asyncio.BufferedProtocol):
    """One connection and those who wait for its replies."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.connection = BrokerConnection(
            address, settings.client_id, answer_bytes_max=settings.answer_bytes_max
        )
        self.failure: ClientError | None = None
        self.slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        """Who comes when all are taken waits, as part of its request's time."""
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._write()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            answers = self.connection.received(nbytes)
        except ClientError as error:
            self.close(error)
            return
        self._write()
        if self.connection.is_ready and not self.ready.done():
            self.ready.set_result(None)
        for answer in answers:
            future = self._waiting.pop(answer.correlation_id, None)
            if future is not None and not future.done():
                future.set_result(answer.message)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError):
            reason = (exc.strerror or str(exc)).lower()
            self.close(ConnectionFailed(self.connection.address, reason))
        else:
            self.close(self.connection.closed_by_peer())

    def send(self, ask: Ask) -> asyncio.Future[Message] | None:
        """Write a request; the future of its reply, if it has one."""
        if self.failure is not None:
            raise self.failure
        correlation_id = self.connection.send(
            ask.request, version_max=ask.version_max, expects_answer=ask.expects_answer
        )
        future: asyncio.Future[Message] | None = None
        if ask.expects_answer:
            future = asyncio.get_running_loop().create_future()
            self._waiting[correlation_id] = future
        self._write()
        return future

    def close(self, failure: ClientError) -> None:
        """Tell all who wait."""
        if self.failure is not None:
            return
        self.failure = failure
        waiting: list[asyncio.Future[Any]] = [self.ready, *self._waiting.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(failure)
                future.exception()  # it may have nobody left who retrieves it
        self._waiting.clear()
        if self._transport is not None:
            self._transport.close()

    def _write(self) -> None:
        assert self._transport is not None
        outgoing = self.connection.take_outgoing()
        if outgoing:
            self._transport.writelines(outgoing)


class AsyncClient:
    """Runs the operations of this package on kept connections."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, _now_ms, random.random)
        self._channels: dict[Address, asyncio.Task[Channel]] = {}
        self._tickets: dict[int, asyncio.Task[Reply]] = {}
        self._next_ticket = 0

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def run(
        self,
        operation: Callable[Concatenate[Cluster, P], Steps[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The operation's result; ClientError and its kinds say what went wrong."""
        steps = operation(self.cluster, *args, **kwargs)
        started: list[int] = []
        outcome: Any = None
        try:
            while True:
                effect = steps.send(outcome)
                outcome = await self._perform(effect)
                if isinstance(effect, Start):
                    started.append(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except BaseException:
            # Cancelled or failed: what it started has nobody left to wait for it.
            for number in started:
                self._abandon(number)
            raise

    async def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        channels, self._channels = self._channels, {}
        for address, opening in channels.items():
            opening.cancel()
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().close(ConnectionFailed(address, "the client was closed"))
        for number in list(self._tickets):
            self._abandon(number)
        await asyncio.gather(*channels.values(), return_exceptions=True)
        await asyncio.sleep(0)  # the sockets are closed by now

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Start(ask):
                self._next_ticket += 1
                task = asyncio.create_task(self._ask(ask))
                self._tickets[self._next_ticket] = task
                return self._next_ticket
            case Finish(number):
                return await self._tickets.pop(number)
            case Abandon(number):
                self._abandon(number)
            case Pause(ms):
                await asyncio.sleep(ms / 1000)
        return None

    def _abandon(self, number: int) -> None:
        task = self._tickets.pop(number, None)
        if task is not None:
            task.cancel()

    async def _ask(self, ask: Ask) -> Reply:
        channel: Channel | None = None
        try:
            async with asyncio.timeout(ask.timeout_ms / 1000):
                channel = await self._channel(ask.address)
                async with channel.slots:
                    future = channel.send(ask)
                    return None if future is None else await future
        except TimeoutError:
            failure = TimedOut(f"{ask.address}: no answer in time")
            if channel is not None:
                channel.close(failure)
            return failure
        except ClientError as error:
            return error

    async def _channel(self, address: Address) -> Channel:
        opening = self._channels.get(address)
        if opening is None or (opening.done() and not _is_usable(opening)):
            opening = self._channels[address] = asyncio.create_task(self._open(address))
        # Others may wait for the same connection: one who gives up does not end it.
        return await asyncio.shield(opening)

    async def _open(self, address: Address) -> Channel:
        loop = asyncio.get_running_loop()
        timeout_ms = self.settings.connect_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, channel = await loop.create_connection(
                    lambda: Channel(address, self.settings), address.host, address.port
                )
                try:
                    await channel.ready
                except asyncio.CancelledError:  # too late, or the client is closed
                    channel.close(ConnectionFailed(address, "it was given up"))
                    raise
        except TimeoutError:
            raise ConnectionFailed(address, f"no connection within {timeout_ms} ms") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConnectionFailed(address, reason) from None
        return channel


def _is_usable(opening: asyncio.Task[Channel]) -> bool:
    if opening.cancelled() or opening.exception() is not None:
        return False
    return opening.result().failure is None


def _now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)
