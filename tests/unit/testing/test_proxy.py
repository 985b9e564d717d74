"""The proxy between nodes: it carries, holds back, lets go, and refuses for those who are gone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tidelog.testing.ports import HOST, Ports
from tidelog.testing.proxy import HEADER, Proxy, Route, sender_of

SECONDS_MAX = 30
STALL_SECONDS = 0.3
"""How long nothing comes before a test believes that nothing will."""


def request(client_id: str | None, body: bytes = b"body") -> bytes:
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    return HEADER.pack(HEADER.size - 4 + len(name) + len(body), 1, 18, 7, size) + name + body


@pytest.mark.parametrize(
    ("client_id", "sender"),
    [
        ("raft-client-3", 3),
        ("broker-12-fetcher-0", 12),
        ("101", 101),
        ("broker-7-txn-marker-sender", 7),
        ("consumer-1", -1),
        ("rdkafka", -1),
        ("", -1),
        (None, -1),
    ],
)
def test_a_node_is_known_by_its_client_id(client_id, sender):
    data = request(client_id)
    assert sender_of(data) == sender
    whole = len(data) - len(b"body")
    assert {sender_of(data[:end]) for end in range(whole)} == ({None} if whole else set())


class Echo:
    """A node: it answers every byte with the same byte, until it is gone."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.listener = socket.create_server((HOST, port))
        self.connections: list[socket.socket] = []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def _answer(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            pass
        connection.close()

    def has_open(self, count: int) -> bool:
        """Whether so many connections stay: the proxy's looks are closed as soon as seen."""
        deadline = time.monotonic() + SECONDS_MAX
        while len([one for one in self.connections if one.fileno() >= 0]) != count:
            if time.monotonic() > deadline:
                return False
            self.threads[0].join(0.01)
        return True

    def kill(self) -> None:
        """As the kernel does it: the listener and every connection at once."""
        for one in (self.listener, *self.connections):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(SECONDS_MAX)
        self.listener.close()


class Running:
    """A proxy to node 1 in a thread; what it is told it has done when the call returns."""

    def __init__(self, port: int, node_port: int) -> None:
        self.port = port
        self.proxy = Proxy([Route(1, port, node_port)])
        self.ours, theirs = socket.socketpair()
        self.theirs = theirs
        self.changed: list[int] = []
        self.connections: list[Connection] = []
        self.is_over = False
        self.proxy.watch(theirs, self._told)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _told(self) -> None:
        told = self.theirs.recv(1)
        self.is_over = told == b"x"
        change = self.proxy.cut if told == b"c" else self.proxy.set_isolated
        change(self.changed)
        self.theirs.sendall(b".")

    def _run(self) -> None:
        while not self.is_over:
            self.proxy.run_once()

    def isolate(self, *nodes: int) -> None:
        self._tell(b"i", nodes)

    def cut(self, *nodes: int) -> None:
        self._tell(b"c", nodes)

    def _tell(self, change: bytes, nodes: Iterable[int]) -> None:
        self.changed = list(nodes)
        self.ours.sendall(change)
        assert self.ours.recv(1) == b"."

    def close(self) -> None:
        self.ours.sendall(b"x")
        self.thread.join(SECONDS_MAX)
        self.proxy.close()
        for one in (self.ours, self.theirs, *(c.socket for c in self.connections)):
            one.close()

    def connect(self, client_id: str = "raft-client-2", *, attempts: int = 1000) -> Connection:
        """As soon as the proxy has found the node."""
        for _ in range(attempts):
            try:
                self.connections.append(Connection(self.port, client_id))
            except ConnectionRefusedError:
                threading.Event().wait(0.01)
            else:
                return self.connections[-1]
        raise ConnectionRefusedError("the proxy does not listen")


class Connection:
    """Of node 2, unless the client id says otherwise; it has been introduced."""

    def __init__(self, port: int, client_id: str) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=SECONDS_MAX)
        self.first = request(client_id)
        self.socket.sendall(self.first)

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                break
            data += more
        return data

    def introduced(self) -> Connection:
        assert self.receive(len(self.first)) == self.first
        return self

    def is_silent(self) -> bool:
        self.socket.settimeout(STALL_SECONDS)
        try:
            self.socket.recv(1)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(SECONDS_MAX)
        return False


@contextmanager
def running(ports: Ports) -> Iterator[tuple[Running, Echo]]:
    node_port, port, *_ = ports.numbers
    node, proxy = Echo(node_port), Running(port, node_port)
    try:
        yield proxy, node
    finally:
        proxy.close()
        node.kill()
        ports.release()


@pytest.fixture
def network() -> Iterator[tuple[Running, Echo]]:
    with running(Ports(2)) as both:
        yield both


def test_bytes_pass_in_both_directions(network):
    proxy, _ = network
    connection = proxy.connect().introduced()
    data = bytes(range(256)) * 40_000  # more than both sockets and the proxy hold
    sender = threading.Thread(target=connection.socket.sendall, args=(data,))
    sender.start()
    assert connection.receive(len(data)) == data
    sender.join(SECONDS_MAX)


@pytest.mark.parametrize("isolated", [1, 2])
def test_nothing_passes_while_either_end_is_isolated_and_nothing_is_lost(network, isolated):
    proxy, _ = network
    connection = proxy.connect().introduced()
    proxy.isolate(isolated)
    connection.socket.sendall(b"held back")
    assert connection.is_silent()
    proxy.isolate()
    assert connection.receive(9) == b"held back"


@pytest.mark.parametrize("isolated", [1, 2])
def test_a_connection_of_that_time_begins_when_it_is_over(network, isolated):
    proxy, node = network
    before = proxy.connect().introduced()
    proxy.isolate(isolated)
    connection = proxy.connect()
    assert connection.is_silent()
    assert node.has_open(1)
    proxy.isolate()
    connection.introduced()
    before.socket.sendall(b"x")
    assert before.receive(1) == b"x"


def test_others_pass_while_one_is_isolated(network):
    proxy, _ = network
    proxy.connect().introduced()
    proxy.isolate(2)
    proxy.connect("raft-client-3").introduced()
    proxy.connect("somebody").introduced()


@pytest.mark.parametrize("node", [1, 2])
def test_connections_are_cut_and_may_be_made_again(network, node):
    proxy, _ = network
    cut = proxy.connect().introduced()
    other = proxy.connect("raft-client-3").introduced()
    proxy.cut(node)
    assert cut.receive(1) == b""
    other.socket.sendall(b"x")
    assert other.receive(1) == (b"" if node == 1 else b"x")
    proxy.connect().introduced()


def test_an_end_is_passed_on_after_the_last_byte(network):
    proxy, _ = network
    connection = proxy.connect().introduced()
    connection.socket.sendall(b"last")
    connection.socket.shutdown(socket.SHUT_WR)
    assert connection.receive(5) == b"last"


def test_nobody_listens_for_a_node_that_is_gone_and_somebody_when_it_is_back(network):
    proxy, node = network
    connection = proxy.connect().introduced()
    node.kill()
    assert connection.receive(1) == b"", "its connections are gone"
    with pytest.raises(ConnectionRefusedError):
        proxy.connect(attempts=1)
    back = Echo(node.port)
    proxy.connect().introduced()
    back.kill()


def test_a_look_whether_somebody_listens_reaches_nobody(network):
    proxy, node = network
    proxy.connect().introduced()
    before = len(node.connections)
    for _ in range(3):
        socket.create_connection((HOST, proxy.port), timeout=SECONDS_MAX).close()
    proxy.connect().introduced()
    proxy_asked = 3  # at most: once for each that ended, whether the node is still there
    assert len(node.connections) <= before + proxy_asked + 1


def test_two_clusters_never_have_the_same_ports():
    held = [Ports(20) for _ in range(5)]
    numbers = [port for ports in held for port in ports.numbers]
    assert len(set(numbers)) == 100
    for ports in held:
        ports.release()
    assert not any(ports._path.exists() for ports in held)
