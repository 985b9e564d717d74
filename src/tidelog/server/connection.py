"""One client's connection: frames in, answers out, in the order of the requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import FRAME_BYTES_MAX, FrameReader
from tidelog.wire.request import (
    Request,
    Served,
    UnsupportedApiVersions,
    decode_request,
    encode_response,
    refuse_api_versions,
)

log = logging.getLogger("tidelog.connection")

Handler = Callable[[Request], Message | None]
"""Answers a request; None means that it has no answer (Produce with acks=0)."""


class Connection(asyncio.BufferedProtocol):
    """Receives in place, so that no byte is copied between the kernel and the decoder.

    A client whose bytes are not requests is disconnected with one line in the log: what
    follows in its stream could be read as anything.
    """

    def __init__(
        self, handle: Handler, served: Served, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self.handle = handle
        self.served = served
        self.frames = FrameReader(frame_bytes_max)
        self.peer = "unconnected"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        host, port, *_ = transport.get_extra_info("peername")
        self.peer = f"{host}:{port}"

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self.frames.received(nbytes):
                self._answer(frame)
        except DecodeError as error:
            log.warning("closing the connection of %s: %s", self.peer, error)
            self.transport.close()

    def _answer(self, frame: memoryview) -> None:
        try:
            request = decode_request(frame, self.served)
        except UnsupportedApiVersions as refused:
            self.transport.writelines(refuse_api_versions(refused, self.served))
            return
        message = self.handle(request)
        if message is not None:
            self.transport.writelines(encode_response(request, message))
