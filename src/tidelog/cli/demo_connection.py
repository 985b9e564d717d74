"""What a connection answers, over a real socket: the one request that the wire layer can serve
without a node, and bytes that are none."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.server.connection import Connection
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.codec import decode, encode
from tidelog.wire.frame import FRAME_BYTES_MAX, LENGTH
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.request import Request, Served, encode_response

SERVED: Served = {ApiKey.API_VERSIONS: APIS[ApiKey.API_VERSIONS].versions}
ANSWER_SECONDS_MAX = 5.0
FUTURE_VERSION = 99


class Exchange(NamedTuple):
    """What a client sent and what came of it."""

    sent: str
    got: str


def exchanges() -> list[Exchange]:
    """A listener on a free port of 127.0.0.1, and a connection for each thing to send."""
    log = logging.getLogger("tidelog.connection")
    level = log.level
    # The listener reports each disconnected client, which here is the point and no news.
    log.setLevel(logging.ERROR)
    try:
        return asyncio.run(_exchanges())
    finally:
        log.setLevel(level)


async def _exchanges() -> list[Exchange]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(_Answering()), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    version = APIS[ApiKey.API_VERSIONS].versions[1]
    try:
        return [
            Exchange(sent, await asyncio.wait_for(_send(port, data, answered), ANSWER_SECONDS_MAX))
            for sent, data, answered in (
                (f"ApiVersions v{version}", _question(version), version),
                (f"ApiVersions v{FUTURE_VERSION}", _question(FUTURE_VERSION), 0),
                ("a Produce, which no one serves yet", _frame(bytes(40)), 0),
                ("a frame that claims 2 GB", LENGTH.pack((1 << 31) - 1), 0),
                ("GET / HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n", 0),
            )
        ]
    finally:
        server.close()
        await server.wait_closed()


class _Answering:
    """Stands where a node would: it answers what the wire layer alone can answer."""

    served = SERVED
    request_bytes_max = FRAME_BYTES_MAX

    def connected(self, connection: Connection) -> None:
        pass

    def disconnected(self, connection: Connection) -> None:
        pass

    def received(self, connection: Connection, request: Request) -> bool:
        ranges = (
            ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in SERVED.items()
        )
        response = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=tuple(ranges))
        connection.send(encode_response(request, response))
        return True


async def _send(port: int, data: bytes, version: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        answer = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return "the connection closed"
    finally:
        writer.close()
    header_size = len(encode(ResponseHeader(correlation_id=0), 0))
    response = decode(ApiVersionsResponse, version, answer[header_size:])
    served = ", ".join(
        f"{APIS[row.api_key].name} {row.min_version}-{row.max_version}" for row in response.api_keys
    )
    return f"{ErrorCode(response.error_code).name}; served: {served}"


def _question(version: int) -> bytes:
    header = RequestHeader(
        request_api_key=ApiKey.API_VERSIONS,
        request_api_version=version,
        correlation_id=1,
        client_id="demo",
    )
    request = ApiVersionsRequest(client_software_name="demo", client_software_version="1")
    known = min(version, APIS[ApiKey.API_VERSIONS].versions[1])
    header_version = APIS[ApiKey.API_VERSIONS].request_header_version(version)
    return _frame(encode(header, header_version) + encode(request, known))


def _frame(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body
