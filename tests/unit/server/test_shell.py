"""The real shell: a node on real files, asked over real sockets."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node_client import PROPERTIES

from tidelog.broker.handlers.produce import is_heavy
from tidelog.config.broker import BrokerConfig
from tidelog.disk import RealDisk
from tidelog.env import Now
from tidelog.events import Effect, Event, TurnEnded
from tidelog.loading import load_node, stop_node
from tidelog.runtime.pace import Pace
from tidelog.server.connection import Connection
from tidelog.server.outbox import READ_BYTES_MAX, UNSENT_BYTES_MAX
from tidelog.server.shell import LONG_FRAME, TURNS_MAX, TURNS_MIN, Shell, now
from tidelog.wire.api import APIS, response_class
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.codec import decoder, encode
from tidelog.wire.compression import Compression
from tidelog.wire.declare import Message
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages import create_topics, fetch, produce
from tidelog.wire.request import Request

SECONDS_MAX = 20


def request_frame(message: Message, version: int, correlation_id: int) -> bytes:
    assert message.API_KEY is not None
    header = RequestHeader(
        request_api_key=message.API_KEY,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="test",
    )
    header_version = APIS[message.API_KEY].request_header_version(version)
    body = encode(header, header_version) + encode(message, version)
    return struct.pack(">i", len(body)) + body


class Client:
    """One connection, which sends and receives whole frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.correlation_id = 0

    def send(self, message: Message, version: int) -> None:
        self.correlation_id += 1
        self.writer.write(request_frame(message, version, self.correlation_id))

    async def receive(self, key: int, version: int) -> Any:
        (size,) = struct.unpack(">i", await asyncio.wait_for(self.reader.readexactly(4), 20))
        view = memoryview(await asyncio.wait_for(self.reader.readexactly(size), SECONDS_MAX))
        header_version = APIS[key].response_header_version(version)
        _, position = decoder(ResponseHeader, header_version)(view, 0)
        message, end = decoder(response_class(key), version)(view, position)
        assert end == size
        return message

    async def ask(self, message: Message, version: int) -> Any:
        assert message.API_KEY is not None
        self.send(message, version)
        return await self.receive(message.API_KEY, version)


class Server:
    """A shell that listens."""

    def __init__(self, shell: Shell, port: int) -> None:
        self.shell, self.port = shell, port
        self.clients: list[Client] = []

    async def client(self) -> Client:
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.clients[-1]


@asynccontextmanager
async def serving(path: Path, **settings: int) -> AsyncIterator[Server]:
    config = BrokerConfig.from_properties(PROPERTIES | {"log.dirs": str(path)})
    disk = RealDisk()
    node = load_node(config, disk, random.Random(0), now())
    limits = {"request_bytes_max": 100 << 20, "idle_ms_max": 600_000} | settings
    shell = Shell(node, disk, **limits)
    listener = shell.listener("PLAINTEXT")
    server = await shell.loop.create_server(lambda: Connection(listener), "127.0.0.1", 0)
    shell.start()
    try:
        running = Server(shell, server.sockets[0].getsockname()[1])
        yield running
    finally:
        for client in running.clients:
            client.writer.close()
        server.close()
        shell.close()
        stop_node(node, now())
        await server.wait_closed()


def with_server(path: Path, test: Callable[[Server], Awaitable[None]], **settings: int) -> None:
    async def run() -> None:
        async with serving(path, **settings) as server:
            await test(server)

    asyncio.run(run())


def create_topic(name: str) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    return create_topics.CreateTopicsRequest(topics=(topic,))


def produce_request(value: bytes, compression: Compression = Compression.NONE) -> Message:
    builder = BatchBuilder()
    builder.append(None, value, timestamp=now().wall_ms)
    records = bytes(builder.build(compression=compression))
    data = produce.PartitionProduceData(index=0, records=records)
    return produce.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=(produce.TopicProduceData(name="t", partition_data=(data,)),),
    )


def fetch_request(offset: int, max_wait_ms: int = 0) -> Message:
    partition = fetch.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=100 << 20
    )
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=(fetch.FetchTopic(topic="t", partitions=(partition,)),),
    )


def offset_of(response: Any) -> int:
    (partition,) = response.responses[0].partition_responses
    assert partition.error_code == 0, partition
    return int(partition.base_offset)


def test_large_compressed_records_are_judged_in_a_thread_and_keep_their_place(
    tmp_path: Path,
) -> None:
    heavy = produce_request(random.Random(0).randbytes(200_000), Compression.LZ4)
    light = produce_request(b"light")
    broker: Any = SimpleNamespace(hosting=SimpleNamespace(recompressing={}))
    assert is_heavy(Request(0, 9, 1, None, heavy), broker)
    assert not is_heavy(Request(0, 9, 1, None, light), broker)
    to_compress = produce_request(bytes(20_000))
    partition = object()
    broker.hosting.by_name = {("t", 0): partition}
    assert not is_heavy(Request(0, 9, 1, None, to_compress), broker)
    broker.hosting.recompressing[partition] = None
    assert is_heavy(Request(0, 9, 1, None, to_compress), broker)

    async def test(server: Server) -> None:
        client = await server.client()
        await client.ask(create_topic("t"), 7)
        for message in (light, heavy, light, heavy, light):
            client.send(message, 9)
        offsets = [offset_of(await client.receive(0, 9)) for _ in range(5)]
        assert offsets == [0, 1, 2, 3, 4]

    with_server(tmp_path, test)


def test_a_slow_reader_costs_a_buffer_not_what_it_asked_for(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        await client.ask(create_topic("t"), 7)
        for _ in range(40):
            offset_of(await client.ask(produce_request(bytes(1_000_000)), 9))
        slow = await server.client()
        slow.reader._limit = 1  # type: ignore[attr-defined]
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(3):
            slow.send(fetch_request(0), 11)
        # Other clients are served meanwhile.
        for _ in range(20):
            assert offset_of(await client.ask(produce_request(b"x"), 9)) >= 40
        worst = max(c.unsent_bytes for c in server.shell._connections.values())
        assert 0 < worst <= UNSENT_BYTES_MAX + 2 * READ_BYTES_MAX
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(3):
            response = await slow.receive(1, 11)
            assert len(response.responses[0].partitions[0].records) > 39_000_000

    with_server(tmp_path, test)


def test_silent_connections_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.server.shell.IDLE_SWEEP_SECONDS", 0.02)

    async def test(server: Server) -> None:
        client = await server.client()
        assert await asyncio.wait_for(client.reader.read(), SECONDS_MAX) == b""

    with_server(tmp_path, test, idle_ms_max=60)


def test_a_stop_answers_what_waits(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        await client.ask(create_topic("t"), 7)
        client.send(fetch_request(0, max_wait_ms=600_000), 11)
        while not server.shell.node.is_busy:
            await asyncio.sleep(0)
        await server.shell.drain(SECONDS_MAX)
        response = await client.receive(1, 11)
        assert response.responses[0].partitions[0].error_code == 0

    with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("value", "turns_min", "turns_max"),
    [(b"x", TURNS_MIN, TURNS_MAX), (bytes(LONG_FRAME), 1, 1)],
    ids=["few bytes", "many"],
)
def test_who_waits_for_records_is_told_by_the_end_of_a_turn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: bytes,
    turns_min: int,
    turns_max: int,
) -> None:
    yields: list[None] = []
    monkeypatch.setattr("os.sched_yield", lambda: yields.append(None))
    monkeypatch.setattr("tidelog.server.shell.TURNS_NS_MAX", SECONDS_MAX * 10**9)

    async def test(server: Server) -> None:
        node, turns = server.shell.node, []
        node.pace = Pace(fast_steps=0)  # always fast
        step = node.step

        def watched(event: Event, now: Now) -> list[Effect]:
            if isinstance(event, TurnEnded) and node.waits_for_more:
                turns.append(len(yields) + 1)
            return step(event, now)

        monkeypatch.setattr(node, "step", watched)
        producer, consumer = await server.client(), await server.client()
        await producer.ask(create_topic("t"), 7)
        consumer.send(fetch_request(0, max_wait_ms=600_000), 11)
        while not node.is_busy:
            await asyncio.sleep(0)
        await producer.ask(produce_request(value), 9)
        fetched = await consumer.receive(1, 11)
        assert len(fetched.responses[0].partitions[0].records) > 0
        assert len(turns) == 1
        assert turns_min <= turns[0] <= turns_max
        assert not node.waits_for_more

    with_server(tmp_path, test)


def test_a_thousand_connections(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        first = await server.client()
        await first.ask(create_topic("t"), 7)
        clients = [await server.client() for _ in range(1000)]
        for client in clients:
            client.send(produce_request(b"x"), 9)
        offsets = {offset_of(await client.receive(0, 9)) for client in clients}
        assert offsets == set(range(1000))

    with_server(tmp_path, test)


def test_a_refused_version_is_answered_in_its_turn(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        await client.ask(create_topic("t"), 7)
        client.send(fetch_request(0, max_wait_ms=300), 11)
        unknown = struct.pack(">hhihB", 18, 99, 1234, -1, 0)
        client.writer.write(struct.pack(">i", len(unknown)) + unknown)
        fetched = await client.receive(1, 11)
        assert fetched.error_code == 0
        (size,) = struct.unpack(">i", await client.reader.readexactly(4))
        answer = await client.reader.readexactly(size)
        assert struct.unpack_from(">ih", answer) == (1234, 35)

    with_server(tmp_path, test)
