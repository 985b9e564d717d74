"""What simulated connections promise, and what they do not."""

from __future__ import annotations

import random

import pytest

from tidelog.sim.network import Host, Made, Network, Socket
from tidelog.sim.timeline import SECOND, Timeline


class Party:
    """Owns a socket and remembers what it is told."""

    def __init__(self) -> None:
        self.data = b""
        self.times: list[int] = []
        self.is_closed = False
        self.socket: Socket | None = None

    def received(self, socket: Socket, data: bytes) -> None:
        self.data += data
        self.times.append(socket._network.timeline.now_us)

    def closed(self, socket: Socket) -> None:
        self.is_closed = True


class World:
    """Two machines, one of which listens at port 1."""

    def __init__(self, seed: int = 0) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, random.Random(seed))
        self.here, self.there = self.network.host("here"), self.network.host("there")
        self.client, self.server = Party(), Party()
        self.there.ports[1] = self.accept
        self.made: Made | None = None

    def accept(self, socket: Socket) -> None:
        socket.owner, self.server.socket = self.server, socket

    def connected(self, made: Made) -> None:
        self.made = made
        if made.socket is not None:
            made.socket.owner, self.client.socket = self.client, made.socket

    def connect(self, port: int = 1) -> Socket:
        self.network.connect(self.here, "there", port, self.connected)
        self.run(1)
        assert self.client.socket is not None
        return self.client.socket

    def run(self, seconds: int) -> None:
        self.timeline.run(self.timeline.now_us + seconds * SECOND)

    def block(self, here: Host, there: Host) -> None:
        self.network.block(here, there)


def test_bytes_arrive_in_order_and_take_time() -> None:
    world = World()
    world.network.split = 0.5
    socket = world.connect()
    sent = b""
    for number in range(50):
        piece = b"%d," % number
        socket.send(piece)
        sent += piece
    assert world.server.data == b""
    world.run(1)
    assert world.server.data == sent
    assert len(world.server.times) > 50, "none came in pieces"
    assert world.server.socket is not None
    world.server.socket.send(b"back")
    world.run(1)
    assert world.client.data == b"back"


def test_connections_overtake_each_other() -> None:
    world = World()
    orders = set()
    for _ in range(20):
        first, second = world.connect(), None
        server = world.server
        world.server = Party()
        second = world.connect()
        first.send(b"1")
        second.send(b"2")
        world.run(1)
        orders.add(server.times < world.server.times)
        world.server = Party()
    assert orders == {True, False}


def test_a_port_where_nobody_listens_refuses() -> None:
    world = World()
    world.network.connect(world.here, "there", 2, world.connected)
    world.run(1)
    assert world.made is not None
    assert world.made.was_refused
    assert world.network.connect(world.here, "nowhere", 2, world.connected) is None


def test_a_machine_that_is_cut_off_does_not_answer_at_all() -> None:
    world = World()
    world.block(world.there, world.here)
    world.network.connect(world.here, "there", 2, world.connected)
    world.run(30)
    assert world.made is None
    world.run(100)
    assert world.made is not None
    assert world.made.socket is None
    assert not world.made.was_refused


def test_a_connection_is_made_when_the_way_is_free_again() -> None:
    world = World()
    world.block(world.here, world.there)
    world.network.connect(world.here, "there", 1, world.connected)
    world.run(2)
    world.network.unblock(world.here, world.there)
    world.run(5)
    assert world.made is not None
    assert world.made.socket is not None


def test_an_attempt_that_is_given_up_leaves_nothing_behind() -> None:
    world = World()
    attempt = world.network.connect(world.here, "there", 1, world.connected)
    assert attempt is not None
    attempt.give_up()
    world.run(1)
    assert world.made is None
    assert world.server.socket is None or world.server.is_closed


@pytest.mark.parametrize("direction", ["there", "back"])
def test_a_partition_of_one_way_holds_what_goes_that_way(direction: str) -> None:
    world = World()
    socket = world.connect()
    assert world.server.socket is not None
    if direction == "there":
        world.block(world.here, world.there)
    else:
        world.block(world.there, world.here)
    socket.send(b"there")
    world.server.socket.send(b"back")
    world.run(10)
    assert (world.server.data == b"there") == (direction == "back")
    assert (world.client.data == b"back") == (direction == "there")
    for pair in ((world.here, world.there), (world.there, world.here)):
        if world.network.link(*pair).is_blocked:
            world.network.unblock(*pair)
    socket.send(b" more")
    world.run(2)
    assert (world.server.data, world.client.data) == (b"there more", b"back")


def test_partitions_overlap() -> None:
    world = World()
    socket = world.connect()
    world.block(world.here, world.there)
    world.block(world.here, world.there)
    world.network.unblock(world.here, world.there)
    socket.send(b"a")
    world.run(1)
    assert world.server.data == b""
    world.network.unblock(world.here, world.there)
    world.run(1)
    assert world.server.data == b"a"


def test_a_close_arrives_after_what_was_sent() -> None:
    world = World()
    socket = world.connect()
    socket.send(b"last words")
    socket.close()
    world.run(1)
    assert world.server.data == b"last words"
    assert world.server.is_closed
    assert not world.client.is_closed, "who closes knows it"


def test_a_connection_breaks_at_any_byte() -> None:
    lengths = set()
    for seed in range(40):
        world = World(seed)
        world.connect().send(b"0123456789")
        assert world.network.break_one()
        world.run(1)
        assert b"0123456789".startswith(world.server.data)
        assert world.server.is_closed
        assert world.client.is_closed
        lengths.add(len(world.server.data))
    assert {0, 10} < lengths
    assert not world.network.break_one()


def test_who_sends_to_a_machine_that_lost_its_power_learns_it_when_that_is_back() -> None:
    world = World()
    socket = world.connect()
    world.network.power_off(world.there)
    socket.send(b"hello?")
    world.run(5)
    assert not world.client.is_closed
    world.network.power_on(world.there)
    world.run(1)
    assert world.client.is_closed
    assert world.server.data == b""
    world.network.connect(world.here, "there", 1, world.connected)
    world.run(1)
    assert world.made is not None
    assert world.made.was_refused, "the process did not come back with the power"


def test_what_a_machine_without_power_wanted_to_send_again_is_gone() -> None:
    world = World()
    socket = world.connect()
    world.block(world.here, world.there)
    socket.send(b"never heard")
    world.run(1)
    world.network.power_off(world.here)
    world.network.unblock(world.here, world.there)
    world.run(5)
    assert world.server.data == b""


def test_a_slow_link_is_slow() -> None:
    world = World()
    socket = world.connect()
    world.network.link(world.here, world.there).slow_us = 2 * SECOND
    before_us = world.timeline.now_us
    socket.send(b"a")
    world.run(4)
    assert world.server.times[0] - before_us >= 2 * SECOND


def test_what_others_send_overtakes_a_stalled_connection() -> None:
    world = World()
    late, late_server = world.connect(), world.server
    late.is_stalled = True
    late.send(b"late")
    world.server = Party()
    world.connect().send(b"first")
    world.run(1)
    assert (late_server.data, world.server.data) == (b"", b"first")
    late.is_stalled = False
    world.network.retransmit()
    world.run(1)
    assert late_server.data == b"late"


def test_what_is_on_the_way_outlives_its_sender() -> None:
    world = World()
    socket = world.connect()
    socket.is_stalled = True
    socket.send(b"last words")
    world.run(1)
    world.network.power_off(world.here)
    socket.is_stalled = False
    world.network.retransmit()
    world.run(1)
    assert world.server.data == b"last words"
