"""Connections that the shell makes for a node, over real sockets."""

import asyncio

from tidelog.events import (
    Answered,
    CloseConnection,
    Connect,
    Connected,
    ConnectFailed,
    Disconnected,
    Event,
)
from tidelog.server.outbox import Unsent
from tidelog.server.peer_connections import PeerConnections
from tidelog.testing.ports import free_ports

FRAME = b"\x00\x00\x00\x02ab"


class Recorder:
    """Keeps what a node would be told; an answer's bytes are good for the step alone."""

    def __init__(self) -> None:
        self.events: list[Event | bytes] = []
        self.peers = PeerConnections(self.step, Unsent())

    def step(self, event: Event) -> None:
        self.events.append(bytes(event.frame) if isinstance(event, Answered) else event)

    async def heard(self, count: int) -> list[Event | bytes]:
        async with asyncio.timeout(20):
            while len(self.events) < count:
                await asyncio.sleep(0.001)
        return self.events


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


def test_requests_go_out_and_answers_come_in_until_it_is_closed():
    async def scenario() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        recorder = Recorder()
        recorder.peers.connect(Connect(-1, host, port))
        assert await recorder.heard(1) == [Connected(-1)]
        recorder.peers.send(-1, [FRAME, FRAME[:3]])
        recorder.peers.send(-1, [FRAME[3:]])
        assert (await recorder.heard(3))[1:] == [b"ab", b"ab"]
        recorder.peers.close_one(CloseConnection(-1, "enough"))
        assert (await recorder.heard(4))[3:] == [Disconnected(-1)]
        recorder.peers.send(-1, [FRAME])  # nobody is there any more
        server.close()

    asyncio.run(scenario())


def test_a_port_where_nobody_listens_refuses():
    async def scenario() -> None:
        recorder = Recorder()
        recorder.peers.connect(Connect(-1, "127.0.0.1", free_ports(1)[0]))
        assert await recorder.heard(1) == [ConnectFailed(-1, was_refused=True)]

    asyncio.run(scenario())


def test_a_name_that_leads_nowhere_tells_nothing_of_the_process():
    async def scenario() -> None:
        recorder = Recorder()
        recorder.peers.connect(Connect(-1, "no-such-host.invalid", 9092))
        assert await recorder.heard(1) == [ConnectFailed(-1, was_refused=False)]

    asyncio.run(scenario())


def test_an_answer_that_is_none_ends_the_connection():
    async def scenario() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        recorder = Recorder()
        recorder.peers.connect(Connect(-1, *server.sockets[0].getsockname()))
        await recorder.heard(1)
        recorder.peers.send(-1, [b"\xff\xff\xff\xff"])
        assert (await recorder.heard(2))[1:] == [Disconnected(-1)]
        server.close()

    asyncio.run(scenario())


def test_what_is_being_opened_can_be_given_up():
    async def scenario() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        recorder = Recorder()
        recorder.peers.connect(Connect(-1, *server.sockets[0].getsockname()))
        recorder.peers.close_one(CloseConnection(-1, "never mind"))
        recorder.peers.connect(Connect(-2, *server.sockets[0].getsockname()))
        assert await recorder.heard(1) == [Connected(-2)]
        recorder.peers.close()
        assert (await recorder.heard(2))[1:] == [Disconnected(-2)]
        server.close()

    asyncio.run(scenario())
