"""What is read from whom, and how much is held for whom: all of it has limits."""

from __future__ import annotations

import asyncio
import errno
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.unit.server.fakes import FakeTransport, connect, receive, scripted_shell
from tests.unit.server.test_connection import heartbeat

from tidelog.env import FileSlice
from tidelog.events import (
    CloseConnection,
    Effect,
    Event,
    FileFailed,
    PauseReading,
    Received,
    ResumeReading,
    Send,
    Ticked,
)
from tidelog.server.outbox import (
    READ_BYTES_MAX,
    SCARCE_READ_BYTES_MAX,
    UNSENT_BYTES_MAX,
    Outbox,
    Unsent,
)

HUGE = 64 << 20


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def requests(*correlation_ids: int) -> bytes:
    return b"".join(heartbeat(number, 1) for number in correlation_ids)


def answering(*parts: Any) -> Callable[[Event], list[Effect]]:
    """A script that answers each request with these parts."""

    def script(event: Event) -> list[Effect]:
        return [Send(event.connection, list(parts))] if isinstance(event, Received) else []

    return script


async def turn() -> None:
    """Of the loop: what was called soon has happened."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


class Zeros:
    """A file of so many, which may be cut."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.error: OSError | None = None

    def read(self, position: int, size: int) -> bytes:
        if self.error:
            raise self.error
        return bytes(max(0, min(size, self.size - position)))


def slice_of(file: Any, size: int) -> FileSlice:
    return FileSlice(file, 0, size)


# Requests.


@on_a_loop
async def test_who_does_not_read_answers_is_not_read_from() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    node.script = answering(bytes(UNSENT_BYTES_MAX))
    receive(connection, requests(1))
    await turn()
    assert transport.is_reading
    receive(connection, requests(2))
    await turn()
    assert not transport.is_reading
    transport.drain(HUGE)
    assert transport.is_reading
    receive(connection, requests(3))
    assert node.requests == [1, 2, 3]


@on_a_loop
async def test_requests_that_came_together_are_not_all_answered_to_who_does_not_read() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    node.script = answering(bytes(200_000))
    receive(connection, requests(*range(100)))
    assert 0 < connection.unsent_bytes <= UNSENT_BYTES_MAX + 400_000
    for count in range(100):
        transport.drain(HUGE)
        assert connection.unsent_bytes <= UNSENT_BYTES_MAX + 400_000, count
        await turn()
    assert node.requests == list(range(100))
    assert len(transport.written) == 100 * 200_000


@on_a_loop
async def test_a_node_says_when_to_read_and_when_not() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    node.script = lambda event: [PauseReading(connection.id)]
    receive(connection, requests(1, 2, 3))
    assert not transport.is_reading
    assert node.requests == [1]
    node.script = lambda event: [ResumeReading(connection.id)] if event == Ticked() else []
    shell.step(Ticked())
    await turn()
    assert transport.is_reading
    assert node.requests == [1, 2, 3]


@on_a_loop
async def test_what_is_read_again_is_answered_behind_what_was_answered_before() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    node.script = lambda event: [PauseReading(connection.id)]
    receive(connection, requests(1, 2))

    def script(event: Event) -> list[Effect]:
        if isinstance(event, Received):
            return [Send(connection.id, [b"third"])]
        to = connection.id
        return [Send(to, [b"first"]), ResumeReading(to), Send(to, [b"second"])]

    node.script = script
    shell.step(Ticked())
    await turn()
    await turn()
    assert transport.written == b"firstsecondthird"


@on_a_loop
async def test_two_reasons_not_to_read_are_two() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    connection.hold()
    connection.hold()
    connection.proceed()
    assert not transport.is_reading
    receive(connection, requests(1))  # a transport that had read already
    assert node.requests == []
    connection.proceed()
    assert transport.is_reading
    assert node.requests == [1]


@on_a_loop
async def test_nothing_is_taken_of_a_closed_connection() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)

    def script(event: Event) -> list[Effect]:
        connection.hold()
        return []

    node.script = script
    receive(connection, requests(1, 2))
    connection.close("enough")
    connection.proceed()
    assert transport.is_closed
    assert not transport.is_reading
    assert node.requests == [1]


@on_a_loop
async def test_what_comes_behind_a_request_that_closed_its_connection_is_not_taken() -> None:
    shell, node = scripted_shell()
    connection, _ = connect(shell)
    node.script = lambda event: [CloseConnection(connection.id, "enough")]
    receive(connection, requests(1, 2))
    assert node.requests == [1]


@on_a_loop
async def test_a_client_that_ends_its_side_gets_its_answers() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    node.script = answering(b"answer")
    receive(connection, requests(1, 2))
    connection.eof_received()
    assert transport.written == b"answeranswer"


# Slices.


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_slice_that_ended_early_is_hung_up_on_and_nothing_takes_its_place(
    is_broken: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        shell, node = scripted_shell()
        connection, transport = connect(shell)
        file = Zeros(1000 if not is_broken else 5000)
        file.error = error if is_broken else None
        connection.outbox.push([b"whole"])
        connection.outbox.push([b"head", slice_of(file, 5000)])
        connection.outbox.push([b"next"])
        connection.outbox.flush()
        assert transport.written == b"wholehead"
        assert transport.is_closed
        assert connection.unsent_bytes == 0
        await turn()
        assert node.events == ([FileFailed("a/0.log", error)] if is_broken else [])

    error = OSError(errno.EIO, "broken", "a/0.log")
    asyncio.run(test())
    (record,) = caplog.records
    assert "a promised slice cannot be read" in record.getMessage()


@on_a_loop
async def test_a_node_does_not_hear_of_a_broken_file_inside_a_step() -> None:
    shell, node = scripted_shell()
    connection, _ = connect(shell)
    file = Zeros(5000)
    file.error = OSError(errno.EIO, "broken", "a/0.log")
    answer = [Send(connection.id, [slice_of(file, 5000)]), CloseConnection(connection.id, "so")]
    node.script = lambda event: answer if isinstance(event, Received) else []
    receive(connection, requests(1))
    assert node.requests == [1]
    assert len(node.events) == 1, "a connection that is closed sends what it has, in the step"
    await turn()
    assert node.events[1:] == [FileFailed("a/0.log", file.error)]


@on_a_loop
async def test_of_a_slice_so_much_is_read_as_the_peer_takes() -> None:
    shell, _ = scripted_shell()
    connection, transport = connect(shell)
    size = 10 * READ_BYTES_MAX + 5
    connection.outbox.push([b"head", slice_of(Zeros(size), size), b"tail"])
    connection.outbox.flush()
    for _ in range(20):
        assert connection.unsent_bytes <= UNSENT_BYTES_MAX + READ_BYTES_MAX
        transport.drain(HUGE)
    assert transport.written == b"head" + bytes(size) + b"tail"
    assert connection.unsent_bytes == 0


# All connections of a node.


def outboxes(unsent: Unsent, count: int) -> list[tuple[Outbox, FakeTransport]]:
    class Peer:
        """A connection, as far as its transport sees one."""

        def __init__(self, transport: FakeTransport) -> None:
            transport.protocol = self
            self.outbox = Outbox(transport, self.fail, unsent)
            self.pause_writing = self.outbox.pause
            self.resume_writing = self.outbox.resume

        def fail(self, error: OSError | EOFError) -> None:
            raise error

    transports = [FakeTransport() for _ in range(count)]
    return [(Peer(transport).outbox, transport) for transport in transports]


def test_many_slow_readers_together_cost_no_more_than_a_node_has_for_them() -> None:
    unsent = Unsent(16 << 20)
    peers = outboxes(unsent, 200)
    size = 4 << 20
    for outbox, _ in peers:
        outbox.push([b"head", slice_of(Zeros(size), size)])
        outbox.flush()
        assert unsent.bytes <= unsent.bytes_max + len(peers) * SCARCE_READ_BYTES_MAX
    assert unsent.is_scarce
    # All get all of it in the end, and there is plenty again.
    for _ in range(2 * size // SCARCE_READ_BYTES_MAX):
        for _, transport in peers:
            transport.drain(HUGE)
    assert {len(transport.written) for _, transport in peers} == {size + 4}
    assert unsent.bytes == 0
    outbox, transport = peers[0]
    transport.takes = HUGE
    outbox.push([bytes(unsent.bytes_max // 4 + 1)])
    outbox.flush()
    assert not unsent.is_scarce
    assert {transport.high for _, transport in peers} == {UNSENT_BYTES_MAX}


def test_who_reads_is_served_while_others_do_not() -> None:
    unsent = Unsent(16 << 20)
    slow = outboxes(unsent, 100)
    size = 4 << 20
    for outbox, _ in slow:
        outbox.push([slice_of(Zeros(size), size)])
        outbox.flush()
    assert unsent.is_scarce
    # One that came before, and one that comes now.
    newcomer = outboxes(unsent, 1)[0]
    assert newcomer[1].high == 0
    for reader, transport in (slow[0], newcomer):
        transport.drain(HUGE)
        transport.takes = 2 * size
        before = len(transport.written)
        reader.push([slice_of(Zeros(size), size)])
        reader.flush()
        for _ in range(100):
            transport.drain(HUGE)
        assert len(transport.written) >= before + size
        assert not transport.is_paused


@on_a_loop
async def test_a_node_that_is_short_of_memory_reads_from_nobody_who_does_not_read() -> None:
    shell, node = scripted_shell()
    shell.unsent = Unsent(4 << 20)
    node.script = answering(bytes(100_000))
    peers = [connect(shell) for _ in range(100)]
    for _ in range(3):
        for connection, transport in peers:
            if transport.is_reading:
                receive(connection, requests(1))
        await turn()
    # One answer each at most beyond it, though each alone might have five.
    assert shell.unsent.is_scarce
    assert shell.unsent.bytes <= shell.unsent.bytes_max + 100 * 100_000
    assert not any(transport.is_reading for _, transport in peers)
    for connection, transport in peers[:50]:
        connection.close("enough")
        transport.unsent = 0
    shell.unsent.measure()  # transports that close are not told
    for connection, _ in peers[:50]:
        connection.connection_lost(None)
    for _, transport in peers[50:]:
        transport.drain(HUGE)
    assert all(transport.is_reading for _, transport in peers[50:])
    assert shell.unsent.bytes == 0


@on_a_loop
async def test_what_waits_in_the_node_counts_too() -> None:
    shell, node = scripted_shell()
    slow, transport = connect(shell)
    node.rows.bytes = shell.unsent.bytes_max * 3 // 4
    assert shell.unsent.bytes == node.rows.bytes
    slow.outbox.push([bytes(shell.unsent.measured_after_bytes + 1)])
    slow.outbox.flush()
    assert shell.unsent.is_scarce
    transport.drain(HUGE)
    node.rows.bytes = 0
    shell.unsent.measure()
    assert not shell.unsent.is_scarce


@on_a_loop
async def test_a_peer_that_is_gone_costs_nothing() -> None:
    shell, _ = scripted_shell()
    connection, transport = connect(shell)
    connection.outbox.push([bytes(1000)])
    connection.outbox.flush()
    connection.outbox.push([bytes(500)])
    assert shell.unsent.bytes == 1500
    connection.connection_lost(None)
    # What its transport says now, and for as long as somebody holds it, is no news.
    assert transport.get_write_buffer_size() == 1000
    assert shell.unsent.bytes == 0


@on_a_loop
async def test_a_transport_that_closes_is_told_no_limits() -> None:
    """uvloop's and the fake one would raise an error."""
    shell, _ = scripted_shell()
    closing, closing_transport = connect(shell)
    slow, slow_transport = connect(shell)
    closing.close("enough")
    slow.outbox.push([bytes(shell.unsent.bytes_max)])
    slow.outbox.flush()
    assert shell.unsent.is_scarce
    assert closing_transport.high == UNSENT_BYTES_MAX
    assert slow_transport.high == 0
