"""Requests to the active controller, wherever that goes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.events import Answered, CloseConnection, Connect, Connected, Disconnected, Effect, Send
from tidelog.runtime.controller_channel import RETRY_MS, ControllerChannel
from tidelog.runtime.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from tidelog.wire.request import decode_any, encode_response

SERVED = {int(ApiKey.BROKER_HEARTBEAT): (0, 2)}


class World:
    """Broker 9, and controllers 1 and 2 of which one is active."""

    def __init__(self) -> None:
        self.leader_id, self.leader_epoch = 1, 5
        self.leader_address: tuple[str, int] | None = ("one", 1)
        self.runtime = Runtime(random.Random(1))
        self.channel = ControllerChannel(9, self.runtime, self, None)
        self.time_ms = 0
        self.heard: list[Message | PeerFailure] = []
        self.connections: dict[int, str] = {}
        self.sent: list[tuple[str, Send]] = []
        """To whom what went out."""
        self.closed: list[str] = []

    @property
    def now(self) -> Now:
        return Now(self.time_ms, 0)

    def ask(self, timeout_ms: int = 30_000) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=9,
            broker_epoch=1,
            current_metadata_offset=0,
            want_fence=False,
            want_shut_down=False,
        )
        then = self._answered
        self.channel.ask(request, then, self.now, timeout_ms=timeout_ms)
        self.work()

    def _answered(self, answer: Message | PeerFailure, now: Now) -> None:
        self.heard.append(answer)

    def work(self) -> None:
        """The shell does as it is asked."""
        while self.runtime.effects:
            effects: list[Effect] = self.runtime.effects[:]
            self.runtime.effects.clear()
            for effect in effects:
                self._start(effect)

    def _start(self, effect: Effect) -> None:
        match effect:
            case Connect(connection, host, _):
                self.connections[connection] = host
                self.runtime.peers.step(Connected(connection), self.now)
            case Send(connection, _):
                self.sent.append((self.connections[connection], effect))
            case CloseConnection(connection, _):
                self.closed.append(self.connections[connection])

    def lead(self, node: int, host: str | None, epoch: int = 6) -> None:
        self.leader_id, self.leader_epoch = node, epoch
        self.leader_address = None if host is None else (host, node)
        self.channel.leader_changed(self.now)
        self.work()

    def sleep(self, ms: int) -> None:
        self.time_ms += ms
        self.runtime.tick(self.now)
        self.work()

    def answer(self, index: int, code: ErrorCode = ErrorCode.NONE) -> None:
        sent: Any = self.sent[index][1]
        request = decode_any(memoryview(b"".join(sent.parts))[4:], SERVED)
        response = BrokerHeartbeatResponse(error_code=code, should_shut_down=False)
        frame = b"".join(encode_response(request, response))
        event = Answered(sent.connection, memoryview(frame)[4:])
        self.runtime.peers.step(event, self.now)
        self.work()

    @property
    def receivers(self) -> list[str]:
        return [host for host, _ in self.sent]


@pytest.fixture
def world() -> World:
    return World()


def test_an_answer_is_passed_on(world: World) -> None:
    world.ask()
    world.answer(0)
    assert world.receivers == ["one"]
    assert isinstance(world.heard[0], BrokerHeartbeatResponse)


def test_who_is_active_no_more_is_asked_again_or_its_successor(world: World) -> None:
    world.ask()
    world.answer(0, ErrorCode.NOT_CONTROLLER)
    assert world.heard == []
    world.sleep(RETRY_MS)
    assert world.receivers == ["one", "one"]
    world.runtime.peers.step(Disconnected(world.sent[1][1].connection), world.now)
    world.lead(2, "two")
    world.answer(2)
    assert world.receivers == ["one", "one", "two"]
    assert len(world.heard) == 1


def test_nobody_waits_for_a_controller_that_is_none_any_more(world: World) -> None:
    """Its machine is silent, so that the connection does not break: another one is active."""
    world.ask()
    world.lead(1, None)
    assert world.receivers == ["one"], "it may still answer"
    world.lead(2, "two")
    assert world.receivers == ["one", "two"]
    assert world.closed == ["one"]
    world.answer(1)
    assert len(world.heard) == 1
    world.sleep(60_000)
    assert len(world.heard) == 1


def test_nor_for_one_that_leads_again_and_may_know_nothing_of_it(world: World) -> None:
    """Its machine lost its power for a moment, and nobody told us."""
    world.ask()
    world.lead(1, "one", epoch=7)
    world.lead(1, "one", epoch=7)  # both roles of a node tell of it
    assert (world.receivers, world.closed) == (["one", "one"], ["one"])
    world.answer(1)
    assert len(world.heard) == 1


def test_the_same_one_is_not_hung_up_on(world: World) -> None:
    world.ask()
    world.lead(1, "one", epoch=5)
    assert (world.receivers, world.closed) == (["one"], [])
    world.answer(0)
    assert len(world.heard) == 1


def test_time_runs_out(world: World) -> None:
    world.lead(-1, None)
    world.ask(timeout_ms=200)
    world.sleep(200)
    assert world.heard == [PeerFailure.TIMED_OUT]
