"""Connections that a node makes: what becomes of requests when these break or are slow."""

from collections.abc import Callable

import pytest

from tidelog.env import Now
from tidelog.errors import PeerFailure
from tidelog.events import (
    Answered,
    CloseConnection,
    Connect,
    Connected,
    ConnectFailed,
    Disconnected,
    Effect,
    Send,
)
from tidelog.runtime.alarm import Alarm
from tidelog.runtime.peers import PEERS_MAX, PROBE_TIMEOUT_MS, Peers
from tidelog.runtime.schedule import Schedule
from tidelog.wire.declare import Message
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.request import decode_any, encode_response

SERVED = {12: (0, 4)}


class World:
    """A node's peers, and what they asked for."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.schedule = Schedule(Alarm())
        self.peers = Peers(self.effects, self.schedule)
        self.peer = self.peers.peer("a", 9, "me")
        self.heard: list[tuple[str, Message | PeerFailure]] = []

    def ask(self, name: str, timeout_ms: int = 100, at_ms: int = 0) -> None:
        def then(answer: Message | PeerFailure, now: Now) -> None:
            self.heard.append((name, answer))

        request = HeartbeatRequest(group_id=name, generation_id=1, member_id="m")
        self.peer.send(request, then, now(at_ms), timeout_ms)

    def taken(self) -> list[Effect]:
        effects = self.effects[:]
        self.effects.clear()
        return effects

    def answer(self, sent: Effect, code: int = 0, correlation_id: int | None = None) -> None:
        assert isinstance(sent, Send)
        request = decode_any(memoryview(b"".join(sent.parts))[4:], SERVED)
        if correlation_id is not None:
            request = request._replace(correlation_id=correlation_id)
        frame = b"".join(encode_response(request, HeartbeatResponse(error_code=code)))
        self.peers.step(Answered(sent.connection, memoryview(frame)[4:]), now(1))


def now(monotonic_ms: int) -> Now:
    return Now(monotonic_ms, 0)


@pytest.fixture
def world() -> World:
    return World()


def test_a_connection_is_made_when_it_is_needed_and_kept(world: World):
    assert world.peers.peer("a", 9, "me") is world.peer
    assert world.peers.peer("a", 9, "another purpose") is not world.peer
    world.ask("first")
    world.ask("second")
    assert world.taken() == [Connect(-1, "a", 9)]
    world.peers.step(Connected(-1), now(1))
    first, second = world.taken()
    world.ask("third")
    (third,) = world.taken()
    for sent, code in ((first, 0), (second, 27), (third, 25)):
        world.answer(sent, code)
    assert world.heard == [
        ("first", HeartbeatResponse(error_code=0)),
        ("second", HeartbeatResponse(error_code=27)),
        ("third", HeartbeatResponse(error_code=25)),
    ]


@pytest.mark.parametrize(
    ("event", "failure"),
    [
        (ConnectFailed(-1, was_refused=True), PeerFailure.REFUSED),
        (ConnectFailed(-1, was_refused=False), PeerFailure.LOST),
        (Disconnected(-1), PeerFailure.LOST),
    ],
)
def test_all_that_was_asked_fails_with_the_connection(
    world: World, event: ConnectFailed | Disconnected, failure: PeerFailure
):
    world.ask("first")
    world.ask("second")
    world.peers.step(event, now(1))
    assert world.heard == [("first", failure), ("second", failure)]
    world.taken()
    world.ask("again")
    assert world.taken() == [Connect(-2, "a", 9)]
    world.peers.step(event, now(1))  # news of the old connection are no news
    assert len(world.heard) == 2


def test_a_peer_that_does_not_answer_is_hung_up_on(world: World):
    world.ask("slow", timeout_ms=1000)
    world.ask("fast", timeout_ms=100, at_ms=50)
    world.peers.step(Connected(-1), now(60))
    world.taken()
    world.schedule.run(now(149))
    assert not world.heard
    world.schedule.run(now(150))
    assert world.heard == [("slow", PeerFailure.TIMED_OUT), ("fast", PeerFailure.TIMED_OUT)]
    (closed,) = world.taken()
    assert isinstance(closed, CloseConnection)
    assert closed.connection == -1
    world.ask("later", timeout_ms=100, at_ms=200)
    world.schedule.run(now(299))
    assert len(world.heard) == 2


def test_an_answer_ends_the_wait(world: World):
    world.ask("first", timeout_ms=100)
    world.peers.step(Connected(-1), now(1))
    world.answer(world.taken()[-1])
    world.ask("second", timeout_ms=500)
    world.schedule.run(now(100))
    assert world.heard == [("first", HeartbeatResponse(error_code=0))]
    world.schedule.run(now(500))
    assert world.heard[1:] == [("second", PeerFailure.TIMED_OUT)]


def corrupt(world: World) -> None:
    world.answer(world.taken()[-1], correlation_id=77)


def unasked(world: World) -> None:
    sent = world.taken()[-1]
    world.answer(sent)
    world.answer(sent)


@pytest.mark.parametrize("bad_answer", [corrupt, unasked])
def test_a_peer_that_talks_nonsense_is_hung_up_on(
    world: World, bad_answer: Callable[[World], None]
):
    world.ask("first")
    world.peers.step(Connected(-1), now(1))
    bad_answer(world)
    assert isinstance(world.taken()[-1], CloseConnection)
    assert len(world.heard) == 1


def test_closing_tells_those_who_wait(world: World):
    world.peer.close(now(0))  # nothing is open yet
    assert not world.taken()
    world.ask("first")
    world.peer.close(now(0))
    assert world.heard == [("first", PeerFailure.LOST)]


@pytest.mark.parametrize(
    ("event", "was_refused"),
    [
        (Connected(-1), False),
        (ConnectFailed(-1, was_refused=True), True),
        (ConnectFailed(-1, was_refused=False), False),
        (None, False),
    ],
)
def test_a_probe_tells_whether_anybody_listens(
    world: World, event: Connected | ConnectFailed | None, was_refused: bool
):
    heard: list[bool] = []
    world.peers.probe("a", 9, lambda refused, now: heard.append(refused), now(0))
    assert world.taken() == [Connect(-1, "a", 9)]
    if event is not None:
        world.peers.step(event, now(1))
    world.schedule.run(now(PROBE_TIMEOUT_MS))
    assert heard == [was_refused]


def test_addresses_that_nobody_has_any_more_are_forgotten() -> None:
    world = World()
    world.ask("one")  # is connecting
    for port in range(10 * PEERS_MAX):
        world.peers.peer("b", port, "me")
        assert len(world.peers._peers) <= PEERS_MAX
    assert world.peers.peer("a", 9, "me") is world.peer
