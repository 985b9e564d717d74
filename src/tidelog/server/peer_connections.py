"""Connections that this node makes to others: requests out, answers in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from tidelog.events import (
    Answered,
    CloseConnection,
    Connect,
    Connected,
    ConnectFailed,
    ConnectionId,
    Disconnected,
    Event,
)
from tidelog.server.outbox import Outbox, Unsent
from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import FrameReader

log = logging.getLogger("tidelog.peers")


class PeerConnections:
    """All of them, by the ids that the node gave them."""

    def __init__(self, step: Callable[[Event], None], unsent: Unsent) -> None:
        self.step = step
        self.unsent = unsent
        self._open: dict[ConnectionId, PeerConnection] = {}
        self._connecting: dict[ConnectionId, asyncio.Task[None]] = {}

    def connect(self, effect: Connect) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(effect))
        self._connecting[effect.connection] = task

    async def _connect(self, effect: Connect) -> None:
        peer = PeerConnection(self, effect.connection)
        event: Connected | ConnectFailed = Connected(peer.id)
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: peer, effect.host, effect.port)
            self._open[peer.id] = peer
        except OSError as error:
            event = ConnectFailed(peer.id, isinstance(error, ConnectionRefusedError))
        del self._connecting[peer.id]
        self.step(event)

    def send(self, connection: ConnectionId, parts: list[Any]) -> None:
        peer = self._open.get(connection)
        if peer is not None:
            peer.send(parts)

    def close_one(self, effect: CloseConnection) -> None:
        connecting = self._connecting.pop(effect.connection, None)
        if connecting is not None:
            connecting.cancel()
        peer = self._open.get(effect.connection)
        if peer is not None:
            peer.close(effect.reason)

    def lost(self, peer: PeerConnection) -> None:
        if self._open.pop(peer.id, None) is not None:
            self.step(Disconnected(peer.id))

    def close(self) -> None:
        """The node stops."""
        for task in self._connecting.values():
            task.cancel()
        for peer in list(self._open.values()):
            peer.close("the node stops")


class PeerConnection(asyncio.BufferedProtocol):
    """Receives in place, as a client's connection does. A request leaves at once: who asks has
    nothing to add to it."""

    def __init__(self, peers: PeerConnections, connection: ConnectionId) -> None:
        self.id = connection
        self._peers = peers
        self._frames = FrameReader()
        self.get_buffer = self._frames.buffer  # type: ignore[method-assign] # one call less a read
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._outbox = Outbox(self._transport, self._slice_failed, self._peers.unsent)
        self._is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._frames.close()
        self._outbox.discard()
        self._peers.lost(self)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._peers.step(Answered(self.id, frame))
        except DecodeError as error:
            self.close(f"its answer is none: {error}")

    def send(self, parts: list[Any]) -> None:
        if self._is_open and self._outbox.push(parts):
            self._outbox.flush()

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()

    def close(self, reason: str) -> None:
        if self._is_open:
            log.debug("closing connection %d to a peer: %s", self.id, reason)
            self._end()
            self._transport.close()

    def _slice_failed(self, error: OSError | EOFError) -> None:
        raise AssertionError(f"a request has no slice of a file: {error}")

    def _end(self) -> None:
        self._is_open = False
        self._frames.is_held = True
