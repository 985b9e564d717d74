"""The network between the nodes of a test cluster: every connection of theirs runs through here,
and stands still while one of its ends is isolated.

Nothing is lost and nothing is closed meanwhile, as with TCP when a cable is out: the other side
waits until it gives up or the cable is back. Who gives up before the node has heard of it leaves
nothing behind: attempts are many. A connection that both ends know stays until the cable is back,
also when one or both have closed it, for what was sent before arrives then; no such connection is
added meanwhile.

Who connects is read from the client id of the first request, which has the node's id in it. Nobody
listens here for a node that nobody listens for: a refused connection proves that a process is gone,
with the proxy as without. That of an isolated node is not noticed before it could be heard of.
"""

from __future__ import annotations

import errno
import re
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

HOST = "127.0.0.1"
BUFFER_BYTES = 256 << 10
UNSENT_BYTES_MAX = 4 << 20
"""Of one direction; beyond it we stop reading."""
RETRY_SECONDS = 0.01
"""How often a node that is down is looked for, and whether there are descriptors again."""
BACKLOG = 128
LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""There are no more sockets to be had."""

HEADER = struct.Struct(">ihhih")
"""Length, API key, version, correlation id, and the length of the client id that follows."""
CLIENT_ID = re.compile(r"(?:raft-client-|broker-)?(\d+)(?:-.*)?")


class Route(NamedTuple):
    """A listener of a node: where others look for it, and where it is."""

    node_id: int
    port: int
    node_port: int


def sender_of(data: bytes) -> int | None:
    """Which node sent a connection's first bytes; -1: none of them. None: too few to tell."""
    if len(data) < HEADER.size:
        return None
    size = HEADER.unpack_from(data)[4]
    if len(data) < HEADER.size + size:
        return None
    found = CLIENT_ID.fullmatch(data[HEADER.size : HEADER.size + max(size, 0)].decode("latin-1"))
    return -1 if found is None else int(found[1])


class Pipe:
    """One direction of a connection."""

    def __init__(self, source: socket.socket, target: socket.socket | None) -> None:
        self.source = source
        self.target = target
        self.unsent = bytearray()
        self.has_ended = False
        """Nothing comes any more."""
        self.is_done = False
        """The other side knows."""


class Link:
    """A connection from a node to another, or from somebody else to a node."""

    def __init__(self, accepted: socket.socket, route: Route) -> None:
        self.route = route
        self.sender: int | None = None
        self.there = Pipe(accepted, None)
        self.back: Pipe | None = None
        """None until we are connected, which waits for the first request: who only wants to know
        whether somebody listens sends none."""

    @property
    def sockets(self) -> list[socket.socket]:
        return [self.there.source] + ([] if self.back is None else [self.back.source])


class Proxy:
    """All listeners of all nodes. `isolated` is changed from outside, by `isolate` and `heal`."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.isolated: frozenset[int] = frozenset()
        self._selector = selectors.DefaultSelector()
        self._down = list(routes)
        self._listening: dict[Route, socket.socket] = {}
        self._resting: list[Route] = []
        """Of those that listen: where connections wait until there are descriptors for them."""
        self._links: dict[Link, None] = {}
        self._look_at = 0.0

    def watch(self, file: socket.socket, ready: Callable[[], None]) -> None:
        """Call somebody when a file can be read."""
        self._selector.register(file, selectors.EVENT_READ, lambda mask: ready())

    def set_isolated(self, node_ids: Iterable[int]) -> None:
        """From now on nothing passes to or from these nodes, and to and from others it does."""
        before, self.isolated = self.isolated, frozenset(node_ids)
        for route in list(self._listening):
            if route.node_id in before:
                self._check(route)
        for link in list(self._links):
            self._do(link, partial(self._send, link, link.there))

    def cut(self, node_ids: Iterable[int]) -> None:
        """Break every connection to and from these nodes; what was under way is lost."""
        chosen = frozenset(node_ids)
        for link in list(self._links):
            if link.route.node_id in chosen or link.sender in chosen:
                self._close(link)

    def run_once(self) -> None:
        """Wait until something happens, and do it."""
        looks = self._down or self._resting
        timeout = max(0.0, self._look_at - time.monotonic()) if looks else None
        for key, mask in self._selector.select(timeout):
            now = self._selector.get_map().get(key.fd)
            if now is not None and now.fileobj is key.fileobj:  # not closed by one of those before
                key.data(mask)
        if time.monotonic() >= self._look_at:
            self._look_around()

    def close(self) -> None:
        """Nothing passes any more."""
        for link in list(self._links):
            self._close(link)
        for listener in self._listening.values():
            listener.close()
        self._selector.close()

    # Listeners.

    def _look_around(self) -> None:
        """Who is back, and who may try again to take connections."""
        resting, self._resting = self._resting, []
        for route in resting:
            if route in self._listening:
                self._wait_for_connections(route)
        for route in list(self._down):
            with suppress(OSError):  # as when descriptors lack: later then
                if is_open(route.node_port):
                    self._listen(route)
                    self._down.remove(route)
        self._look_at = time.monotonic() + RETRY_SECONDS

    def _listen(self, route: Route) -> None:
        listener = socket.create_server((HOST, route.port), backlog=BACKLOG)
        listener.setblocking(False)
        self._listening[route] = listener
        self._wait_for_connections(route)

    def _wait_for_connections(self, route: Route) -> None:
        listener = self._listening[route]
        self._selector.register(listener, selectors.EVENT_READ, lambda mask: self._accept(route))

    def _accept(self, route: Route) -> None:
        """One that there is no descriptor for stays where it is, in the kernel's queue."""
        listener = self._listening[route]
        try:
            accepted, _ = listener.accept()
        except OSError as error:
            if error.errno in LACKING:
                self._selector.unregister(listener)
                self._resting.append(route)
                self._look_at = time.monotonic() + RETRY_SECONDS
            return
        link = Link(prepared(accepted), route)
        self._links[link] = None
        self._arm(link)

    def _check(self, route: Route) -> None:
        """A connection to a node ended: is the node gone? Asked before anybody else notices."""
        listener = self._listening.get(route)
        if listener is None or route.node_id in self.isolated or may_be_open(route.node_port):
            return
        del self._listening[route]
        if listener in self._selector.get_map():
            self._selector.unregister(listener)
        listener.close()
        self._down.append(route)
        self._look_at = time.monotonic() + RETRY_SECONDS

    # Links.

    def _arm(self, link: Link) -> None:
        """Wait for what may pass now; or, until the node knows of it, for the end of an attempt."""
        pipes = [link.there] if link.back is None else [link.there, link.back]
        wanted = dict.fromkeys(link.sockets, 0)
        for pipe in pipes:
            if link.back is not None and self._stands(link):
                break
            if not pipe.has_ended and len(pipe.unsent) < UNSENT_BYTES_MAX:
                wanted[pipe.source] |= selectors.EVENT_READ
            if pipe.unsent and pipe.target is not None:
                wanted[pipe.target] |= selectors.EVENT_WRITE
        known = self._selector.get_map()
        for one, events in wanted.items():
            if not events:
                if one in known:
                    self._selector.unregister(one)
            elif one not in known:
                self._selector.register(one, events, self._handler(link, one))
            elif known[one].events != events:
                self._selector.modify(one, events, known[one].data)

    def _stands(self, link: Link) -> bool:
        return link.route.node_id in self.isolated or link.sender in self.isolated

    def _handler(self, link: Link, one: socket.socket) -> Callable[[int], None]:
        def handle(mask: int) -> None:
            if mask & selectors.EVENT_READ:
                self._read(link, one)
            if mask & selectors.EVENT_WRITE:
                self._write(link, one)

        return lambda mask: self._do(link, partial(handle, mask))

    def _do(self, link: Link, work: Callable[[], None]) -> None:
        """Something with a link, which may end by it."""
        try:
            work()
        except OSError:
            self._close(link)
        if link in self._links:
            self._pass_ends_on(link)

    def _read(self, link: Link, one: socket.socket) -> None:
        pipe = link.there if one is link.there.source else link.back
        assert pipe is not None
        data = one.recv(BUFFER_BYTES)
        if not data:
            pipe.has_ended = True
            if pipe is link.back:
                self._check(link.route)
        pipe.unsent += data
        if link.sender is None and pipe is link.there:
            link.sender = sender_of(bytes(pipe.unsent[: HEADER.size + (1 << 15)]))
        self._send(link, pipe)

    def _write(self, link: Link, one: socket.socket) -> None:
        for pipe in (link.there, link.back):
            if pipe is not None and pipe.target is one:
                self._send(link, pipe)

    def _send(self, link: Link, pipe: Pipe) -> None:
        """Not a byte, if we have just learned whose it is and that one is isolated."""
        if self._stands(link):
            return
        if link.back is None and link.sender is not None:
            self._connect(link)
        if pipe.unsent and pipe.target is not None:
            try:
                del pipe.unsent[: pipe.target.send(pipe.unsent)]
            except BlockingIOError:
                return

    def _connect(self, link: Link) -> None:
        try:
            target = socket.create_connection((HOST, link.route.node_port), timeout=1)
        except OSError:
            self._check(link.route)
            raise
        link.there.target = prepared(target)
        link.back = Pipe(target, link.there.source)

    def _pass_ends_on(self, link: Link) -> None:
        """What one side has closed is closed for the other when it has all the bytes."""
        pipes = [link.there] if link.back is None else [link.there, link.back]
        for pipe in pipes:
            if pipe.has_ended and not pipe.unsent and not pipe.is_done and pipe.target is not None:
                pipe.is_done = True
                try:
                    pipe.target.shutdown(socket.SHUT_WR)
                except OSError:
                    pipe.has_ended = True
        if all(pipe.is_done for pipe in pipes) or (link.back is None and link.there.has_ended):
            self._close(link)
        else:
            self._arm(link)

    def _close(self, link: Link) -> None:
        self._check(link.route)
        self._links.pop(link, None)
        for one in link.sockets:
            if one in self._selector.get_map():
                self._selector.unregister(one)
            one.close()


def prepared(one: socket.socket) -> socket.socket:
    one.setblocking(False)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def is_open(port: int) -> bool:
    """Whether somebody listens; a process that stands still does. OSError: cannot be asked."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except ConnectionRefusedError:
        return False
    except TimeoutError:
        pass
    return True


def may_be_open(port: int) -> bool:
    try:
        return is_open(port)
    except OSError:
        return True
