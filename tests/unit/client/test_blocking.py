"""The blocking shell on real sockets: what is kept, what is noticed, what ends in time."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Iterator

import pytest
from tests.unit.client.memory import HANG_UP, SILENT
from tests.unit.client.sockets import SocketBroker, refused_address, socket_broker

from tidelog.client import Address, Client, ClientSettings, TimedOut, TopicPartition
from tidelog.client.errors import ConnectionFailed
from tidelog.client.offsets import list_offsets
from tidelog.client.steps import Abandon, Ask, Steps, exchange, finish, start
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def broker() -> Iterator[SocketBroker]:
    with socket_broker() as found:
        yield found


@pytest.fixture
def client(broker: SocketBroker) -> Iterator[Client]:
    with Client(ClientSettings(bootstrap_servers=(broker.address,), retry_backoff_ms=1)) as found:
        yield found


def offset(client: Client, timestamp: int = 7, **options: int) -> int:
    return client.run(list_offsets, {ORDERS: timestamp}, **options)[ORDERS].offset


def request(timestamp: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="orders", partitions=(partition,))
    return ListOffsetsRequest(replica_id=-1, topics=(topic,))


def test_one_connection_is_kept(broker, client):
    assert [offset(client, number) for number in range(5)] == list(range(5))
    assert len(broker.accepted) == 1
    assert len(broker.broker.asked(ApiKey.API_VERSIONS)) == 1


def test_large_requests_and_answers_come_through(client):
    asked = {TopicPartition("orders", index): index for index in range(2000)}
    found = client.run(list_offsets, asked)
    assert [listed.offset for listed in found.values()] == list(range(2000))


def test_requests_are_pipelined_and_answered_in_any_order(broker, client):
    def out_of_order(cluster: object) -> Steps[list[int]]:
        tickets = []
        for number in range(4):
            tickets.append((yield from start(Ask(broker.address, request(number), 1000))))
        yield Abandon(tickets.pop(1))
        replies = []
        for ticket in reversed(tickets):
            replies.append((yield from finish(ticket)))
        return [reply.topics[0].partitions[0].offset for reply in replies]

    assert client.run(out_of_order) == [3, 2, 0]
    assert offset(client) == 7


def test_a_connection_closed_while_idle_is_opened_anew(broker, client):
    offset(client)
    broker.hang_up()
    broker.accepted[0].close()
    for _ in range(100):  # until the end of the stream has arrived
        if not client._channels[broker.address].is_usable():
            break
        select_briefly()
    assert offset(client) == 7
    assert len(broker.accepted) == 2
    assert len(broker.broker.asked(ApiKey.LIST_OFFSETS)) == 2


def select_briefly() -> None:
    import select

    select.select([], [], [], 0.01)


def test_a_connection_closed_in_the_middle_is_opened_anew(broker, client):
    broker.outcomes = [HANG_UP]
    assert offset(client) == 7
    assert len(broker.accepted) == 2


def test_silence_ends_in_time_and_the_connection_with_it(broker):
    settings = ClientSettings(
        bootstrap_servers=(broker.address,), request_timeout_ms=500, retry_backoff_ms=1
    )
    with Client(settings) as client:
        broker.outcomes = [SILENT]
        assert offset(client) == 7
        assert len(broker.accepted) >= 2
        broker.outcomes = [SILENT] * 100
        began = time.monotonic()
        with pytest.raises(TimedOut, match="no answer in time"):
            offset(client, timeout_ms=200)
        assert time.monotonic() - began < 5


def test_those_who_wait_on_a_connection_that_timed_out_are_told(broker, client):
    def two(cluster: object) -> Steps[list[object]]:
        return (
            yield from exchange(
                [Ask(broker.address, request(1), 50), Ask(broker.address, request(2), 5000)]
            )
        )

    broker.outcomes = [SILENT, SILENT]
    began = time.monotonic()
    replies = client.run(two)
    assert all(isinstance(reply, TimedOut) for reply in replies)
    assert time.monotonic() - began < 5


def test_a_refused_connection_is_said_with_its_address():
    address = refused_address()
    settings = ClientSettings(
        bootstrap_servers=(address,), bootstrap_timeout_ms=50, retry_backoff_ms=10
    )
    with Client(settings) as client, pytest.raises(TimedOut) as caught:
        offset(client)
    assert isinstance(caught.value.__cause__, ConnectionFailed)
    assert f"{address}: connection refused" in str(caught.value)


def test_a_name_that_does_not_resolve_is_a_failed_connection():
    address = Address("no-such-host.invalid", 9092)
    settings = ClientSettings(bootstrap_servers=(address,), bootstrap_timeout_ms=1)
    with Client(settings) as client, pytest.raises(TimedOut, match=r"no-such-host\.invalid:9092"):
        offset(client)


def test_a_listener_that_says_nothing_is_left_in_time():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = ClientSettings(
            bootstrap_servers=(Address(*listener.getsockname()),),
            connect_timeout_ms=50,
            bootstrap_timeout_ms=60,
        )
        began = time.monotonic()
        with Client(settings) as client, pytest.raises(TimedOut):
            offset(client)
        assert time.monotonic() - began < 5


def test_an_answer_beyond_the_limit_is_refused(broker):
    settings = ClientSettings(
        bootstrap_servers=(broker.address,), answer_bytes_max=100, bootstrap_timeout_ms=1
    )
    with Client(settings) as client, pytest.raises(TimedOut, match="at most 100"):
        offset(client)


def test_a_forked_child_opens_a_connection_of_its_own(broker, client):
    offset(client)
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of threads, which here are the broker's and not the client's.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            os.write(write, b"%d" % offset(client, 8))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"8"
    os.close(read)
    os.close(write)
    assert len(broker.accepted) == 2
    assert offset(client, 9) == 9
    assert len(broker.accepted) == 2


def test_a_closed_client_can_be_used_again(broker, client):
    offset(client)
    client.close()
    assert offset(client) == 7
    assert len(broker.accepted) == 2
