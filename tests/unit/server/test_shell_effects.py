"""What the shell makes of effects, of the node's timer, and of the end."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.server.fakes import connect, receive, scripted_shell
from tests.unit.server.test_flow import on_a_loop, requests
from tests.unit.server.test_shell import produce_request, request_frame

from tidelog.env import DiskFull
from tidelog.events import Effect, Event, FileFailed, Flush, Flushed, Lane, RemoveFile, Ticked
from tidelog.log.results import Unflushed
from tidelog.runtime.alarm import NEVER
from tidelog.server import run
from tidelog.server.shell import Shell, now
from tidelog.wire.compression import Compression

SECONDS_MAX = 10.0


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not is_so():
            await asyncio.sleep(0.001)


class Failing:
    """A file, or a disk, that does not."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.threads: list[str] = []

    def flush(self) -> None:
        self.threads.append(threading.current_thread().name)
        if self.error:
            raise self.error

    def remove(self, path: str) -> None:
        self.flush()


# Files.


@pytest.mark.parametrize("error", [None, OSError("broken"), DiskFull("full")])
def test_a_node_hears_how_its_flush_went(error: Any) -> None:
    async def test() -> None:
        shell, node = scripted_shell()
        file: Any = Failing(error)
        node.script = lambda event: (
            [Flush(7, (Unflushed(1, (file,), (), ()),))] if event == Ticked() else []
        )
        shell.step(Ticked())
        assert node.events == [Ticked()], "a flush is never done inside a step"
        await until(lambda: len(node.events) > 1)
        assert node.events[1:] == [Flushed(7, error)]
        assert all(name.startswith("disk") for name in file.threads)

    asyncio.run(test())


@on_a_loop
async def test_each_lane_to_the_disk_waits_for_itself_alone() -> None:
    shell, node = scripted_shell()
    others = threading.enumerate()
    gates = {Lane.SOME_DAY: threading.Event(), Lane.AWAITED: threading.Event()}

    class Slow:
        def __init__(self, gate: threading.Event) -> None:
            self._gate = gate

        def flush(self) -> None:
            assert self._gate.wait(SECONDS_MAX)

    def flush(token: int, lane: Lane) -> Flush:
        file: Any = Slow(gates[lane]) if lane in gates else Failing(None)
        return Flush(token, (Unflushed(1, (file,), (), ()),), lane)

    effects = [flush(number, Lane.SOME_DAY) for number in range(5)]
    effects += [flush(number, Lane.AWAITED) for number in (5, 6)]
    effects += [flush(7, Lane.QUORUM)]
    node.script = lambda event: effects if event == Ticked() else []
    shell.step(Ticked())
    await until(lambda: Flushed(7, None) in node.events)
    assert len(node.events) == 2
    gates[Lane.AWAITED].set()
    await until(lambda: Flushed(6, None) in node.events)
    assert len(node.events) == 4
    threads = [thread for thread in threading.enumerate() if thread not in others]
    assert sorted(thread.name for thread in threads) == [
        "disk-quorum_0",
        "disk-urgent_0",
        "disk_0",
        "disk_1",
    ]
    gates[Lane.SOME_DAY].set()
    await until(lambda: len(node.events) == 9)
    shell.close()
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("error", [OSError("broken"), DiskFull("full")])
def test_a_node_hears_of_a_broken_disk_but_not_of_a_full_one(error: Any) -> None:
    async def test() -> None:
        disk = Failing(error)
        shell, node = scripted_shell(disk)
        effects: list[Effect] = [RemoveFile("a/file")]
        node.script = lambda event: effects if event == Ticked() else []
        shell.step(Ticked())
        await until(lambda: disk.threads)
        shell._threads[Lane.SOME_DAY].shutdown(wait=True)
        await asyncio.sleep(0.02)
        failed = [FileFailed("a/file", error)] if isinstance(error, OSError) else []
        assert node.events[1:] == failed

    asyncio.run(test())


# The timer.


class Timers:
    """A loop's call_later, counted."""

    def __init__(self, shell: Shell) -> None:
        self.handles: list[asyncio.TimerHandle] = []
        call_later = shell.loop.call_later

        def counted(delay: float, action: Any, *arguments: Any) -> asyncio.TimerHandle:
            self.handles.append(call_later(delay, action, *arguments))
            return self.handles[-1]

        shell.loop.call_later = counted  # type: ignore[method-assign]

    @property
    def pending(self) -> list[asyncio.TimerHandle]:
        return [handle for handle in self.handles if not handle.cancelled()]


@on_a_loop
async def test_an_earlier_time_replaces_a_later_one() -> None:
    shell, node = scripted_shell()
    timers = Timers(shell)
    for delay in (60_000, 50_000, 55_000, 40_000):
        node.alarm.not_later_than(now().monotonic_ms + delay)
        shell.step(Flushed(1))
    assert len(timers.handles) == 3
    (timer,) = timers.pending
    assert timer.when() == pytest.approx(shell.loop.time() + 40, abs=1)


@on_a_loop
async def test_a_node_is_woken_each_time_that_it_wants() -> None:
    shell, node = scripted_shell()

    def script(event: Event) -> list[Effect]:
        node.alarm.time_ms = NEVER if len(node.events) == 4 else now().monotonic_ms + 1
        return []

    node.script = script
    node.alarm.time_ms = now().monotonic_ms + 5
    shell.step(Flushed(1))
    await until(lambda: len(node.events) == 4)
    assert node.events[1:] == [Ticked()] * 3
    # Later than the last one was: still heard of.
    node.alarm.time_ms = now().monotonic_ms + 5
    node.script = lambda event: []
    shell.step(Flushed(2))
    await until(lambda: len(node.events) > 5)
    node.alarm.time_ms = NEVER
    await asyncio.sleep(0.02)
    assert set(node.events[5:]) == {Ticked()}


# The end.


@on_a_loop
async def test_a_node_that_stops_reads_nothing_more() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    seen: list[bool] = []

    def at_stop() -> list[Effect]:
        seen.append(transport.is_reading)
        return []

    node.at_stop = at_stop
    await shell.drain(SECONDS_MAX)
    assert seen == [False]
    assert not transport.is_reading
    receive(connection, requests(1))  # had arrived already
    assert node.requests == []


@on_a_loop
async def test_a_stop_waits_for_answers_but_not_for_ever() -> None:
    shell, node = scripted_shell()
    node.is_busy = True
    draining = asyncio.ensure_future(shell.drain(SECONDS_MAX))
    await asyncio.sleep(0.05)
    assert not draining.done()
    node.is_busy = False
    await asyncio.wait_for(draining, 5)
    node.is_busy = True
    await asyncio.wait_for(shell.drain(0.02), 5)


@on_a_loop
async def test_a_stop_waits_for_slow_readers() -> None:
    shell, _ = scripted_shell()
    connection, transport = connect(shell)
    connection.outbox.push([b"answer"])
    connection.outbox.flush()
    draining = asyncio.ensure_future(shell.drain(SECONDS_MAX))
    await asyncio.sleep(0.05)
    assert not draining.done()
    transport.drain(1000)
    await asyncio.wait_for(draining, 5)


def test_who_waits_for_others_to_take_over_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LEAVE_TOLD_SECONDS", 0.001)
    caplog.set_level("INFO")

    async def told() -> None:
        taken_over = asyncio.Event()
        shell: Any = SimpleNamespace(leave=lambda seconds_max: taken_over.wait())
        leaving = asyncio.ensure_future(run._leave(shell))
        await until(lambda: "waits for others to take over what it leads, for 15 s" in caplog.text)
        taken_over.set()
        await leaving

    asyncio.run(told())


# Judging.


@on_a_loop
async def test_a_thread_judges_large_records_and_what_comes_behind_them_waits() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    heavy = produce_request(random.Random(0).randbytes(200_000), Compression.LZ4)
    receive(connection, request_frame(heavy, 9, 1) + requests(2))
    assert node.requests == []
    assert not transport.is_reading
    await until(lambda: transport.is_reading)
    assert node.requests == [1, 2]


@on_a_loop
async def test_an_error_of_ours_in_the_thread_hangs_up() -> None:
    shell, node = scripted_shell()
    connection, transport = connect(shell)
    del node.broker.hosting.by_name
    heavy = produce_request(random.Random(0).randbytes(200_000), Compression.LZ4)
    receive(connection, request_frame(heavy, 9, 1) + requests(2))
    await until(lambda: transport.is_closed)
    assert node.requests == []
