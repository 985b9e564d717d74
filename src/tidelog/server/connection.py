"""One client's connection: frames in, answers out. The node keeps the order of answers."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, cast

from tidelog.server.outbox import Outbox, Unsent
from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import FrameReader
from tidelog.wire.records_types import SingleProduce
from tidelog.wire.request import Request, Served, decode_request

log = logging.getLogger("tidelog.connection")

FRAMES_A_TURN_MAX = 64
"""Requests of one peer that are handled before others have their turn."""


class Listener(Protocol):
    """Whom a connection tells what it receives: the shell."""

    name: str
    served: Served
    request_bytes_max: int
    unsent: Unsent

    def connected(self, connection: Connection) -> None: ...
    def received(self, connection: Connection, request: Request | SingleProduce) -> bool:
        """Whether the next request may come at once; if not, `proceed` is called later."""
        ...

    def disconnected(self, connection: Connection) -> None: ...
    def file_failed(self, error: OSError) -> None:
        """The disk erred when an answer was read from it."""
        ...


class Connection(asyncio.BufferedProtocol):
    """Receives in place, so that no byte is copied between the kernel and the decoder.

    A client whose bytes are not requests is disconnected with one line in the log: what
    follows in its stream could be read as anything.
    """

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.frames = FrameReader(listener.request_bytes_max)
        self.get_buffer = self.frames.buffer  # type: ignore[method-assign] # one call less a read
        self.id = -1
        self.peer = "unconnected"
        self.last_active_ms = 0
        self._is_open = False
        self._waits = 0
        self._moved = 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are ones by their methods, not by their class.
        self.transport = cast(asyncio.Transport, transport)
        self.outbox = Outbox(self.transport, self._slice_failed, self.listener.unsent)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "a closed socket"
        self._is_open = True
        self.listener.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self.frames.close()
        self.outbox.discard()
        self.listener.disconnected(self)

    def _end(self) -> None:
        self._is_open = self.outbox.is_open = False
        self.frames.is_held = True

    def eof_received(self) -> None:
        if self._is_open:
            self.outbox.flush()  # the transport closes behind this

    def buffer_updated(self, nbytes: int) -> None:
        frame = self.frames.only(nbytes)
        if frame is None:
            self._take()
            return
        try:
            if not self.listener.received(self, decode_request(frame, self.listener.served)):
                self.hold()
        except DecodeError as error:
            self.close(str(error))

    def _take(self) -> None:
        """All that has arrived, unless that is too much for one turn."""
        listener = self.listener
        left = FRAMES_A_TURN_MAX
        try:
            for frame in self.frames.frames():
                if not listener.received(self, decode_request(frame, listener.served)):
                    self.hold()
                left -= 1
                if not left:
                    # Others have their turn first, and this peer its answers.
                    self.hold()
                    asyncio.get_running_loop().call_soon(self.proceed)
        except DecodeError as error:
            self.close(str(error))

    def hold(self) -> None:
        """Read nothing more until proceed is called as often as hold was."""
        self._waits += 1
        self.frames.is_held = True
        if self._waits == 1 and self._is_open:
            self.transport.pause_reading()

    def proceed(self) -> None:
        """Never from inside a step: what it takes up is stepped at once."""
        self._waits -= 1
        if self._waits or not self._is_open:
            return
        self.frames.is_held = False
        self._take()
        if not self.frames.is_held:
            self.transport.resume_reading()

    @property
    def unsent_bytes(self) -> int:
        return self.outbox.unsent_bytes if self._is_open else 0

    def has_moved(self) -> bool:
        """Whether part of a request came, or of an answer left, since this was asked last."""
        before, self._moved = self._moved, (self.frames.pending_bytes, self.outbox.left_bytes)
        return self._moved != before

    def pause_writing(self) -> None:
        self.outbox.pause()
        # Who does not read answers may not ask for more.
        self.hold()

    def resume_writing(self) -> None:
        self.outbox.resume()
        self.proceed()

    def _slice_failed(self, error: OSError | EOFError) -> None:
        self.close(f"a promised slice cannot be read: {error}")
        if isinstance(error, OSError):
            self.listener.file_failed(error)

    def close(self, reason: str, level: int = logging.WARNING) -> None:
        if self._is_open:
            log.log(level, "closing the connection of %s: %s", self.peer, reason)
            self.outbox.flush()  # what was answered before is still owed
            self._end()
            self.transport.close()
