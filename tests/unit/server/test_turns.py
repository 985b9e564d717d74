"""Whose turn it is, who is idle, and what a stop waits for."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from typing import Any

import pytest
from tests.unit.server.fakes import connect, receive, scripted_shell
from tests.unit.server.test_flow import Zeros, answering, on_a_loop, requests, slice_of, turn
from tests.unit.server.test_shell import SECONDS_MAX, produce_request, request_frame

from tidelog.env import Now
from tidelog.events import Ticked
from tidelog.server import shell as shell_module
from tidelog.server.connection import FRAMES_A_TURN_MAX
from tidelog.server.outbox import READ_BYTES_MAX, UNSENT_BYTES_MAX
from tidelog.wire.compression import Compression
from tidelog.wire.frame import BUFFER_BYTES_MIN


@on_a_loop
async def test_others_have_their_turn_between_the_requests_of_one() -> None:
    shell, node = scripted_shell()
    many, _ = connect(shell)
    one, _ = connect(shell)
    count = 3 * FRAMES_A_TURN_MAX + 1
    receive(many, requests(*range(count)))
    assert node.requests == list(range(FRAMES_A_TURN_MAX))
    receive(one, requests(5000))
    for _ in range(4):
        await turn()
    assert node.requests.index(5000) == FRAMES_A_TURN_MAX
    assert [number for number in node.requests if number != 5000] == list(range(count))


def test_all_steps_of_a_turn_have_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1)
    monkeypatch.setattr(shell_module, "now", lambda: Now(next(clock), 0))

    async def step_in_two_turns() -> None:
        shell, node = scripted_shell()
        for _ in range(2):
            shell.step(Ticked())
            shell.step(Ticked())
            await turn()
        first, second, third, fourth = (time.monotonic_ms for time in node.times)
        assert first == second < third == fourth

    asyncio.run(step_in_two_turns())


@on_a_loop
async def test_a_stop_waits_for_what_a_thread_judges() -> None:
    shell, node = scripted_shell()
    connection, _ = connect(shell)
    may_end = threading.Event()
    shell._judges.submit(may_end.wait, SECONDS_MAX)  # it has one thread
    heavy = produce_request(random.Random(0).randbytes(200_000), Compression.LZ4)
    receive(connection, request_frame(heavy, 9, 1))
    draining = asyncio.ensure_future(shell.drain(SECONDS_MAX))
    await asyncio.sleep(0.05)
    assert not draining.done()
    may_end.set()
    await asyncio.wait_for(draining, SECONDS_MAX)
    assert node.requests == [1]


@on_a_loop
async def test_nothing_is_told_to_a_node_that_has_ended() -> None:
    shell, node = scripted_shell()
    shell.close()
    shell.step(Ticked())
    assert node.events == []


class Clock:
    """Milliseconds that pass when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 1_000_000
        monkeypatch.setattr(shell_module, "_monotonic_ns", lambda: self.ms * 1_000_000)


@pytest.mark.parametrize(("idle_ms", "closed"), [(60_000, True), (-1, False)])
def test_only_who_is_silent_is_closed(
    monkeypatch: pytest.MonkeyPatch, idle_ms: int, closed: bool
) -> None:
    clock = Clock(monkeypatch)

    @on_a_loop
    async def test() -> None:
        shell, _ = scripted_shell()
        shell.idle_ms_max = idle_ms
        shell.sweep_idle()
        (active, speaks), (_, is_still) = connect(shell), connect(shell)
        for number in range(20):
            clock.ms += 4_900
            receive(active, requests(number))
            clock.ms += 100
            shell.sweep_idle()
            assert not speaks.is_closed
            assert not (is_still.is_closed and clock.ms - 1_000_000 < idle_ms)
        assert is_still.is_closed == closed

    test()


@pytest.mark.parametrize("lies_in", ["transport", "file"])
def test_who_still_reads_an_answer_is_not_idle(
    monkeypatch: pytest.MonkeyPatch, lies_in: str
) -> None:
    clock = Clock(monkeypatch)

    @on_a_loop
    async def test() -> None:
        shell, node = scripted_shell()
        shell.idle_ms_max = 60_000
        shell.sweep_idle()
        size = 100 * READ_BYTES_MAX
        node.script = answering(
            slice_of(Zeros(size), size) if lies_in == "file" else bytes(UNSENT_BYTES_MAX // 2)
        )
        (reads, slow), (stopped, stuck) = connect(shell), connect(shell)
        receive(reads, requests(1))
        receive(stopped, requests(2))
        await turn()
        for _ in range(100):
            clock.ms += 5_000
            slow.drain(1000)
            shell.sweep_idle()
            assert not slow.is_closed
            assert not (stuck.is_closed and clock.ms - 1_000_000 < 60_000)
        assert stuck.is_closed
        for _ in range(20):  # it stops reading
            clock.ms += 5_000
            shell.sweep_idle()
        assert slow.is_closed

    test()


def test_who_still_sends_a_request_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    @on_a_loop
    async def test() -> None:
        shell, node = scripted_shell()
        shell.idle_ms_max = 60_000
        connection, transport = connect(shell)
        for number, byte in enumerate(requests(7)):
            assert node.requests == [], number
            clock.ms += 50_000
            receive(connection, bytes([byte]))
            shell.sweep_idle()
            assert not transport.is_closed
        assert node.requests == [7]

    test()


def test_who_is_silent_gives_its_buffer_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    @on_a_loop
    async def test() -> None:
        shell, _ = scripted_shell()
        connection, _ = connect(shell)
        receive(connection, requests(*range(20_000)))
        while connection.frames.is_held:
            await turn()

        def size() -> int:
            room: Any = connection.get_buffer(-1)
            return len(room)

        assert size() > BUFFER_BYTES_MIN
        for _ in range(3):
            clock.ms += 5_000
            shell.sweep_idle()
        assert size() == BUFFER_BYTES_MIN

    test()
