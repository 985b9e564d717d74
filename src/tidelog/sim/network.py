"""Connections between simulated machines: streams of bytes that are late, stall and break.

As with TCP, the bytes of one direction arrive in order or not at all; nothing is promised between
two connections. A machine that is cut off swallows what is sent to it until it is back; a machine
whose process is gone refuses.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tidelog.sim.timeline import MS, SECOND, Timeline

RETRANSMIT_US = 200 * MS
"""After a link is back, what was lost on it comes within this time."""
CONNECT_RETRY_US = SECOND
"""After which nothing was heard and the kernel asks again; doubled each time."""
CONNECT_TRIES_MAX = 6
RARE = 64
"""One in so many deliveries takes much longer than others."""


class Owner(Protocol):
    """The process that a socket belongs to."""

    def received(self, socket: Socket, data: bytes, /) -> None: ...

    def closed(self, socket: Socket, /) -> None:
        """By the other side, or because it broke."""


class Link:
    """The way from one machine to another; the way back is another link."""

    __slots__ = ("base_us", "blocks", "jitter_us", "slow_us")

    def __init__(self, base_us: int, jitter_us: int) -> None:
        self.base_us = base_us
        self.jitter_us = jitter_us
        self.slow_us = 0
        """What a fault adds."""
        self.blocks = 0
        """How many faults cut it at the moment."""

    @property
    def is_blocked(self) -> bool:
        return self.blocks > 0


class Host:
    """What a machine's kernel knows of the network. It outlives processes, but not the power."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_on = True
        self.ports: dict[int, Callable[[Socket], None]] = {}
        """Where a process listens, and who is told of a connection."""
        self.sockets: dict[Socket, None] = {}


class Socket:
    """One end of a connection, with what it has sent and the other has not received."""

    __slots__ = (
        "_due",
        "_in_flight",
        "_last_arrival_us",
        "_network",
        "host",
        "is_open",
        "is_stalled",
        "link",
        "number",
        "owner",
        "peer",
    )

    def __init__(self, network: Network, host: Host, link: Link, number: int) -> None:
        self._network = network
        self.host = host
        self.link = link
        self.number = number
        """Of the connection, from 1 on in the order of their making."""
        self.peer: Socket
        self.owner: Owner | None = None
        self.is_open = True
        self.is_stalled = False
        """Whether what it sends stays on the way, though the link is free: what others send
        overtakes it."""
        self._in_flight: deque[bytes | None] = deque()
        """None is the end of the stream."""
        self._last_arrival_us = 0
        self._due = 0
        """What should have arrived but was lost on a blocked link."""
        host.sockets[self] = None

    def send(self, data: bytes) -> None:
        if self.is_open:
            for piece in self._network.pieces(data):
                self._push(piece)

    def close(self) -> None:
        """Of its owner's will, or because that process is gone: what was sent arrives first."""
        if self._leave():
            self._push(None)

    def vanish(self) -> None:
        """The machine lost its power: nobody is told."""
        self._leave()
        if self.link.blocks:
            self._in_flight.clear()  # what would have been sent again is gone with it

    def abort(self) -> None:
        """Its owner died: its last bytes leave the machine, or some of them, nobody knows how
        many."""
        if self._network.rng.randrange(2):
            self.close()
        else:
            self.cut()
            self._leave()

    def cut(self) -> None:
        """The connection breaks: of what is in flight a part arrives, cut at any byte."""
        data = b"".join(piece or b"" for piece in self._in_flight)
        keep = self._network.rng.randrange(len(data) + 1)
        for position, piece in enumerate(self._in_flight):
            kept = (piece or b"")[:keep]
            keep -= len(kept)
            self._in_flight[position] = kept
        if self.is_open:
            self._push(None)

    def _leave(self) -> bool:
        was_open, self.is_open = self.is_open, False
        self.host.sockets.pop(self, None)
        return was_open

    def _push(self, piece: bytes | None) -> None:
        timeline = self._network.timeline
        arrival_us = timeline.now_us + self._network.delay_us(self.link)
        if arrival_us < self._last_arrival_us:
            arrival_us = self._last_arrival_us
        self._last_arrival_us = arrival_us
        self._in_flight.append(piece)
        timeline.at(arrival_us, self._arrive)

    def _arrive(self) -> None:
        peer = self.peer
        if not self._in_flight:
            return  # given up meanwhile
        if self.link.blocks or self._due or self.is_stalled or not peer.host.is_on:
            self._due += 1
            self._network.stalled[self] = None
            return
        piece = self._in_flight.popleft()
        if not peer.is_open:
            if piece and self.is_open:
                # The kernel of a machine that knows of no such connection.
                peer._in_flight.clear()
                peer._push(None)
        elif piece is None:
            peer.end()
        elif piece:
            assert peer.owner is not None
            peer.owner.received(peer, piece)

    def end(self) -> None:
        """Nothing more can come or go."""
        if self._leave() and self.owner is not None:
            self.owner.closed(self)

    def retransmit(self) -> None:
        """The link is back: what was lost comes now, in its order."""
        due, self._due = self._due, 0
        timeline, network = self._network.timeline, self._network
        for _ in range(due):
            arrival_us = timeline.now_us + network.rng.randrange(RETRANSMIT_US)
            self._last_arrival_us = max(arrival_us, self._last_arrival_us)
            timeline.after(self._last_arrival_us - timeline.now_us, self._arrive)


class Attempt:
    """A connection that is being made; then is called once unless it is given up."""

    def __init__(
        self, network: Network, here: Host, there: Host, port: int, then: Callable[[Made], None]
    ) -> None:
        self._network = network
        self._here, self._there, self._port = here, there, port
        self._then: Callable[[Made], None] | None = then
        self._tries = 0
        self._try()

    def give_up(self) -> None:
        self._then = None

    def _try(self) -> None:
        if self._then is None:
            return
        delay_us = self._network.delay_us(self._network.link(self._here, self._there))
        self._network.timeline.after(delay_us, self._knock)

    def _knock(self) -> None:
        """The request arrives there, or does not."""
        network, here, there = self._network, self._here, self._there
        way, back = network.link(here, there), network.link(there, here)
        if way.is_blocked or back.is_blocked or not there.is_on:
            self._tries += 1
            if self._tries > CONNECT_TRIES_MAX:
                self._answer(None, was_refused=False)
            else:
                network.timeline.after(CONNECT_RETRY_US << (self._tries - 1), self._try)
            return
        accept = there.ports.get(self._port)
        delay_us = network.delay_us(back)
        if self._then is None:
            return
        if accept is None:
            network.timeline.after(delay_us, partial(self._answer, None, was_refused=True))
            return
        ours, theirs = network.pair(here, there)
        accept(theirs)
        network.timeline.after(delay_us, partial(self._answer, ours, was_refused=False))

    def _answer(self, socket: Socket | None, *, was_refused: bool) -> None:
        if self._then is None or not self._here.is_on:
            if socket is not None:
                socket.close()
            return
        then, self._then = self._then, None
        then(Made(socket, was_refused))


class Made:
    """What became of an attempt."""

    __slots__ = ("socket", "was_refused")

    def __init__(self, socket: Socket | None, was_refused: bool) -> None:
        self.socket = socket
        self.was_refused = was_refused


class Network:
    """All machines, and how each reaches each."""

    def __init__(self, timeline: Timeline, rng: random.Random) -> None:
        self.timeline = timeline
        self.rng = rng
        self.base_us = (50, 500)
        self.jitter_us = (50, 1000)
        """From what to what; each link has its own."""
        self.split = 0.0
        """How often what is sent arrives in pieces."""
        self.hosts: dict[str, Host] = {}
        self.stalled: dict[Socket, None] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._count = 0

    def host(self, name: str) -> Host:
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = Host(name)
        return found

    def link(self, here: Host, there: Host) -> Link:
        key = here.name, there.name
        found = self._links.get(key)
        if found is None:
            base_us = self.rng.randrange(*self.base_us)
            found = self._links[key] = Link(base_us, self.rng.randrange(*self.jitter_us))
        return found

    def connect(
        self, here: Host, name: str, port: int, then: Callable[[Made], None]
    ) -> Attempt | None:
        """None if there is no machine of that name."""
        there = self.hosts.get(name)
        return None if there is None else Attempt(self, here, there, port, then)

    def pair(self, here: Host, there: Host) -> tuple[Socket, Socket]:
        self._count += 1
        ours = Socket(self, here, self.link(here, there), self._count)
        theirs = Socket(self, there, self.link(there, here), self._count)
        ours.peer, theirs.peer = theirs, ours
        return ours, theirs

    def delay_us(self, link: Link) -> int:
        chance = self.rng.random()
        delay_us = link.base_us + link.slow_us + int(chance * link.jitter_us)
        if chance * RARE < 1:
            delay_us += int(self.rng.random() * 20 * link.jitter_us)
        return delay_us

    def pieces(self, data: bytes) -> list[bytes]:
        """Most often one."""
        if len(data) < 2 or self.rng.random() >= self.split:
            return [data]
        cut = self.rng.randrange(1, len(data))
        return [data[:cut], *self.pieces(data[cut:])]

    # Faults.

    def block(self, here: Host, there: Host) -> None:
        """From now on nothing arrives, until as many calls of unblock."""
        self.link(here, there).blocks += 1

    def unblock(self, here: Host, there: Host) -> None:
        link = self.link(here, there)
        link.blocks -= 1
        assert link.blocks >= 0
        if not link.blocks:
            self.retransmit()

    def retransmit(self) -> None:
        """What stalled may go on, where the link is free and the machine has power."""
        for socket in list(self.stalled):
            if not (socket.link.blocks or socket.is_stalled) and socket.peer.host.is_on:
                del self.stalled[socket]
                socket.retransmit()

    def power_off(self, host: Host) -> None:
        host.is_on = False
        host.ports.clear()
        for socket in list(host.sockets):
            socket.vanish()

    def power_on(self, host: Host) -> None:
        host.is_on = True
        self.retransmit()

    def break_one(self) -> bool:
        """Some connection breaks; whether there was one."""
        sockets = [socket for host in self.hosts.values() for socket in host.sockets]
        if not sockets:
            return False
        socket = sockets[self.rng.randrange(len(sockets))]
        for end in (socket, socket.peer):
            end.cut()
        return True
