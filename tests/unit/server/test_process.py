"""A node as a process of its own: thousands of clients at once, and a stop that owes nobody."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.unit.cli.node import SCRIPT, SECONDS_MAX, Up, up
from tests.unit.server.test_shell import (
    Client,
    create_topic,
    fetch_request,
    offset_of,
    produce_request,
    request_frame,
)

from tidelog.wire.api import response_class
from tidelog.wire.codec import decode
from tidelog.wire.declare import Message
from tidelog.wire.messages import create_topics

pytestmark = pytest.mark.slow  # every command is a process

CONNECTIONS = 5_000
CONNECTION_BYTES_MAX = 64 << 10
"""What one may cost a node for as long as it is open."""
FILES_MAX = CONNECTIONS + 500
FEW_FILES = 400
ANY_REQUEST = create_topics.CreateTopicsRequest(topics=())
PRODUCE_VERSION, FETCH_VERSION = 9, 11


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Up]:
    with up(tmp_path) as command:
        yield command


@contextmanager
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= FILES_MAX, f"ulimit -Hn is {hard}: too few for {CONNECTIONS} connections"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES_MAX), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_bytes(process_id: int) -> int:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def answer_of(connection: socket.socket) -> memoryview:
    """The next answer's body, behind its correlation id."""
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return memoryview(stream.read(size))[4:]


def test_thousands_of_connections(node: Up) -> None:
    async def create() -> None:
        client = Client(*await asyncio.open_connection("127.0.0.1", node.port))
        await client.ask(create_topic("t"), 7)
        client.writer.close()

    asyncio.run(create())
    before = resident_bytes(node.node)
    address = "127.0.0.1", node.port
    with many_files(), ExitStack() as opened:
        clients = [
            opened.enter_context(socket.create_connection(address)) for _ in range(CONNECTIONS)
        ]
        frame = request_frame(produce_request(b"x"), PRODUCE_VERSION, 1)
        for _ in range(2):
            for client in clients:
                client.sendall(frame)
            offsets = set()
            for client in clients:
                # The header of a flexible version ends with its tags.
                body = answer_of(client)[1:]
                offsets.add(offset_of(decode(response_class(0), PRODUCE_VERSION, body)))
            assert len(offsets) == CONNECTIONS
        assert max(offsets) == 2 * CONNECTIONS - 1
        grown = resident_bytes(node.node) - before
        assert grown < CONNECTIONS * CONNECTION_BYTES_MAX, f"{grown / CONNECTIONS:.0f} B each"
    assert node.end() == (0, "")


def test_who_is_in_flight_is_answered_by_a_stop(node: Up) -> None:
    async def test() -> None:
        client, waiting = [
            Client(*await asyncio.open_connection("127.0.0.1", node.port)) for _ in range(2)
        ]
        await client.ask(create_topic("t"), 7)
        waiting.send(fetch_request(0, max_wait_ms=600_000), FETCH_VERSION)
        await waiting.writer.drain()
        # What was sent before this was answered has arrived, too.
        await client.ask(fetch_request(0), FETCH_VERSION)
        os.kill(node.node, signal.SIGTERM)
        fetched = await waiting.receive(1, FETCH_VERSION)
        assert fetched.responses[0].partitions[0].error_code == 0
        assert await asyncio.wait_for(waiting.reader.read(), SECONDS_MAX) == b""
        for one in (client, waiting):
            one.writer.close()

    asyncio.run(test())
    code, said = node.wait()
    assert code == 1, "no node is left"
    assert "ended with exit code 0" in said


def test_strangers_do_not_take_the_files_that_a_node_needs(tmp_path: Path) -> None:
    few = ("sh", "-c", f'ulimit -n {FEW_FILES}; exec "$@"', "sh", SCRIPT)
    with up(tmp_path, program=few) as node, ExitStack() as opened:
        address = "127.0.0.1", node.port
        clients = (
            opened.enter_context(socket.create_connection(address, SECONDS_MAX))
            for _ in range(2 * FEW_FILES)
        )
        welcome = [client for client in clients if asks(client, ANY_REQUEST)]
        assert FEW_FILES // 3 < len(welcome) < FEW_FILES
        (told,) = [line for line in log_of(tmp_path) if "WARNING" in line]
        assert f" of {FEW_FILES} files are open; allow more (ulimit -n)" in told
        # It goes on with those who are in, and lets others in when they leave.
        assert asks(welcome[-1], create_topic("t"))
        opened.close()
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            with socket.create_connection(address, SECONDS_MAX) as client:
                if asks(client, create_topic("u")):
                    break
            assert time.monotonic() < deadline, "it has not heard that they left"
        assert node.end() == (0, "")


def asks(client: socket.socket, message: Message) -> bool:
    """Whether there is an answer."""
    try:
        client.sendall(request_frame(message, 7, 1))
        return bool(client.recv(100))
    except ConnectionError:
        return False


def log_of(directory: Path) -> list[str]:
    return (directory / "node-1.log").read_text().splitlines()
