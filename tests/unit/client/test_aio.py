"""The asyncio shell on real sockets: many operations at once on one connection."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.unit.client.memory import HANG_UP, SILENT
from tests.unit.client.sockets import SocketBroker, refused_address, socket_broker

from tidelog.client import AsyncClient, ClientSettings, TimedOut, TopicPartition
from tidelog.client.connection import IN_FLIGHT_MAX
from tidelog.client.fetch import PartitionReader
from tidelog.client.offsets import list_offsets
from tidelog.wire.api import ApiKey

ORDERS = TopicPartition("orders", 0)


def run(scenario, **settings):
    """Runs scenario(broker, client) on a broker of its own."""

    async def main(broker: SocketBroker) -> None:
        settings.setdefault("bootstrap_servers", (broker.address,))
        settings.setdefault("retry_backoff_ms", 1)
        async with AsyncClient(ClientSettings(**settings)) as client:
            await scenario(broker, client)

    with socket_broker() as broker:
        asyncio.run(main(broker))


async def offset(client: AsyncClient, timestamp: int = 7, **options: int) -> int:
    return (await client.run(list_offsets, {ORDERS: timestamp}, **options))[ORDERS].offset


async def has_hung_up(broker: SocketBroker) -> bool:
    """Whether the client closes its first connection, some day."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if broker.accepted and broker.accepted[0].fileno() == -1:
            return True
        await asyncio.sleep(0.001)
    return False


def test_many_operations_share_one_connection():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        numbers = range(IN_FLIGHT_MAX * 2)
        await offset(client)
        found = await asyncio.gather(*(offset(client, number) for number in numbers))
        assert found == list(numbers)
        assert len(broker.accepted) == 1
        assert len(broker.broker.asked(ApiKey.LIST_OFFSETS)) == len(numbers) + 1

    run(scenario)


def test_large_requests_and_answers_come_through():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        asked = {TopicPartition("orders", index): index for index in range(2000)}
        found = await client.run(list_offsets, asked)
        assert [listed.offset for listed in found.values()] == list(range(2000))

    run(scenario)


def test_a_broken_connection_is_opened_anew():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        broker.outcomes = [None, HANG_UP]
        assert await offset(client) == 7
        assert await offset(client) == 7
        assert len(broker.accepted) == 2

    run(scenario)


def test_silence_ends_in_time():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        broker.outcomes = [SILENT] * 100
        began = time.monotonic()
        with pytest.raises(TimedOut, match="no answer in time"):
            await offset(client, timeout_ms=200)
        assert time.monotonic() - began < 5

    run(scenario, request_timeout_ms=50)


def test_a_refused_connection_is_said():
    address = refused_address()

    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        with pytest.raises(TimedOut, match=f"{address}: "):
            await offset(client)

    run(scenario, bootstrap_servers=(address,), bootstrap_timeout_ms=1)


def test_one_that_is_cancelled_leaves_the_others_alone():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        await offset(client)
        broker.outcomes = [SILENT]
        waiting = asyncio.create_task(offset(client))
        while len(broker.broker.asked(ApiKey.LIST_OFFSETS)) < 2:
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert client._tickets == {}
        assert len(broker.accepted) == 1

    run(scenario)


def test_who_gives_up_does_not_end_the_connection_that_others_wait_for():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        usual = broker.broker.handlers[ApiKey.API_VERSIONS]
        go_on = threading.Event()
        broker.broker.handlers[ApiKey.API_VERSIONS] = lambda r: (go_on.wait(5), usual(r))[1]
        first = asyncio.create_task(offset(client))
        second = asyncio.create_task(offset(client))
        while not broker.broker.requests:
            await asyncio.sleep(0.001)
        first.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert await second == 7
        assert len(broker.accepted) == 1

    run(scenario)


def test_a_connection_that_opens_too_late_is_closed():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        broker.broker.handlers[ApiKey.API_VERSIONS] = lambda _: SILENT
        waiting = asyncio.create_task(offset(client))
        assert await has_hung_up(broker)
        waiting.cancel()

    run(scenario, connect_timeout_ms=50)


def test_a_connection_that_opens_while_the_client_is_closed_is_closed():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        broker.broker.handlers[ApiKey.API_VERSIONS] = lambda _: SILENT
        waiting = asyncio.create_task(offset(client))
        while not broker.broker.requests:
            await asyncio.sleep(0.001)
        await client.close()
        assert await has_hung_up(broker)
        waiting.cancel()

    run(scenario)


def test_a_reader_that_is_closed_leaves_no_task_behind():
    async def scenario(broker: SocketBroker, client: AsyncClient) -> None:
        reader = PartitionReader(ORDERS, 0)
        broker.broker.handlers[ApiKey.FETCH] = lambda _: SILENT
        reading = asyncio.create_task(client.run(reader.read))
        while not broker.broker.asked(ApiKey.FETCH):
            await asyncio.sleep(0.001)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await client.run(reader.close)
        await client.close()
        assert len(asyncio.all_tasks()) == 1

    run(scenario)
