"""A connection over a real socket: answers, order, and what becomes of a client that errs."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tidelog.runtime.handlers.api_versions import refuse_version
from tidelog.server.connection import Connection
from tidelog.server.outbox import Unsent
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.codec import encode
from tidelog.wire.headers import RequestHeader
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.records_types import SingleProduce
from tidelog.wire.request import Request, UnknownVersion, encode_response

SERVED = {key: api.versions for key, api in APIS.items()}
FRAME_BYTES_MAX = 10_000


class Answering:
    """A heartbeat's generation comes back as its error code; generation 0 has no answer."""

    served = SERVED
    request_bytes_max = FRAME_BYTES_MAX

    def __init__(self) -> None:
        self.unsent = Unsent()
        self.open: set[Connection] = set()

    def connected(self, connection: Connection) -> None:
        self.open.add(connection)

    def disconnected(self, connection: Connection) -> None:
        self.open.remove(connection)

    def file_failed(self, error: OSError) -> None:
        raise AssertionError(error)

    def _answer(self, connection: Connection, parts: list[Any]) -> None:
        if connection.outbox.push(parts):
            asyncio.get_running_loop().call_soon(connection.outbox.flush)

    def received(self, connection: Connection, request: Request | SingleProduce) -> bool:
        assert isinstance(request, Request)
        if isinstance(request.message, UnknownVersion):
            self._answer(connection, encode_response(request, refuse_version(SERVED)))
            return True
        assert isinstance(request.message, HeartbeatRequest)
        generation = request.message.generation_id
        if generation:
            response = HeartbeatResponse(error_code=generation)
            self._answer(connection, encode_response(request, response))
        return True


def heartbeat(correlation_id: int, generation: int) -> bytes:
    header = RequestHeader(
        request_api_key=12, request_api_version=0, correlation_id=correlation_id, client_id=None
    )
    body = HeartbeatRequest(group_id="g", generation_id=generation, member_id="m")
    return framed(encode(header, 1) + encode(body, 0))


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@asynccontextmanager
async def client() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(Answering()), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        server.close()
        await server.wait_closed()


async def exchange(sent: bytes) -> bytes:
    """What the server says to these bytes until it, or we, hang up."""
    async with client() as (reader, writer):
        writer.write(sent)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 10)


def test_requests_are_answered_in_order(caplog: pytest.LogCaptureFixture) -> None:
    answers = asyncio.run(exchange(heartbeat(1, 5) + heartbeat(2, 0) + heartbeat(3, 6)))
    assert answers == framed(struct.pack(">ih", 1, 5)) + framed(struct.pack(">ih", 3, 6))
    assert caplog.records == []


@pytest.mark.parametrize(
    "bad",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", FRAME_BYTES_MAX + 1),
        struct.pack(">i", -1),
        framed(b""),
        framed(struct.pack(">hhih", 99, 0, 1, -1)),
        framed(struct.pack(">hhih", 12, 77, 1, -1)),
        heartbeat(1, 5)[:4] + bytes(len(heartbeat(1, 5)) - 5) + b"\xff",
        framed(heartbeat(1, 5)[4:-3]),
        framed(bytes(range(256))),
    ],
)
def test_a_client_that_errs_is_disconnected_with_one_line(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def never_hang_up() -> bytes:
        async with client() as (reader, writer):
            writer.write(heartbeat(1, 5) + bad + heartbeat(2, 6))
            return await asyncio.wait_for(reader.read(), 10)  # ends because the server closes

    with caplog.at_level(logging.INFO):
        answers = asyncio.run(never_hang_up())
    assert answers == framed(struct.pack(">ih", 1, 5))
    assert len(caplog.records) == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert record.getMessage().startswith("closing the connection of 127.0.0.1:")
    assert "\n" not in record.getMessage()


def test_api_versions_of_the_future_keeps_the_connection() -> None:
    unknown = struct.pack(">hhihB", ApiKey.API_VERSIONS, 99, 4, -1, 0)
    answers = asyncio.run(exchange(framed(unknown) + heartbeat(5, 6)))
    refusal = struct.pack(">ihihhh", 4, 35, 1, 18, 0, 4)
    assert answers == framed(refusal) + framed(struct.pack(">ih", 5, 6))
