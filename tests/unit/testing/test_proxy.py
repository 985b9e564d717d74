"""The proxy between nodes: it carries, holds back, lets go, and refuses for those who are gone."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tidelog.testing.ports import HOST, Ports
from tidelog.testing.proxy import HEADER, RETRY_SECONDS, Proxy, Route, sender_of

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


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether something is so, or will be."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.01)
    return True


class Echo:
    """A node: it answers every byte with the same byte, until it is gone."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.listener = socket.create_server((HOST, port))
        self.connections: list[socket.socket] = []
        self.heard = bytearray()
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
                self.heard += data
                connection.sendall(data)
        except OSError:
            pass
        connection.close()

    def has_open(self, count: int) -> bool:
        """Whether so many connections stay: the proxy's looks are closed as soon as seen."""
        return becomes(lambda: len([one for one in self.connections if one.fileno() >= 0]) == count)

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
        self.connections.append(connected(self.port, client_id, attempts))
        return self.connections[-1]

    def has_links(self, count: int) -> bool:
        return becomes(lambda: len(self.proxy._links) == count)


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


def connected(port: int, client_id: str = "raft-client-2", attempts: int = 1000) -> Connection:
    """As soon as the proxy has found the node."""
    for _ in range(attempts):
        try:
            return Connection(port, client_id)
        except ConnectionRefusedError:
            threading.Event().wait(0.01)
    raise ConnectionRefusedError("the proxy does not listen")


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


@pytest.mark.parametrize("isolated", [1, 2])
def test_attempts_that_are_given_up_meanwhile_leave_nothing_behind(network, isolated):
    proxy, node = network
    proxy.connect().introduced()
    proxy.isolate(isolated)
    attempts = [proxy.connect() for _ in range(50)]
    assert proxy.has_links(51)
    for attempt in attempts:
        attempt.socket.close()
    assert proxy.has_links(1), "the one from before"
    proxy.isolate()
    proxy.connect().introduced()
    assert node.heard.count(b"raft-client-2") == 2, "it never hears of the others"


@pytest.mark.parametrize("words", [b"last words", b""])
@pytest.mark.parametrize("isolated", [1, 2])
def test_what_was_sent_before_a_connection_was_given_up_arrives_when_it_is_over(
    network, isolated, words
):
    proxy, node = network
    other, connection = proxy.connect().introduced(), proxy.connect().introduced()
    proxy.isolate(isolated)
    connection.socket.sendall(words)
    connection.socket.close()
    assert other.is_silent()
    assert node.has_open(2)
    proxy.isolate()
    assert node.has_open(1), "the end is known"
    assert node.heard.endswith(b"body" + words)


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


def test_that_an_isolated_node_is_gone_shows_when_it_is_over(network):
    proxy, node = network
    proxy.connect().introduced().socket.close()
    assert proxy.has_links(0)
    proxy.isolate(1)
    node.kill()
    for _ in range(2):
        attempt = proxy.connect(attempts=1)
        assert attempt.is_silent()
        attempt.socket.close()
        assert proxy.has_links(0)
    proxy.isolate()
    with pytest.raises(ConnectionRefusedError):
        proxy.connect(attempts=1)


@pytest.fixture
def failed(network, monkeypatch) -> list[float]:
    """When the proxy could not take a connection, for there are no descriptors any more."""
    proxy, _ = network
    proxy.connect().introduced()
    accept, times = socket.socket.accept, []

    def fail(listener: socket.socket) -> tuple[socket.socket, object]:
        if listener.getsockname()[1] != proxy.port:
            return accept(listener)
        times.append(time.monotonic())
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "accept", fail)
    return times


def test_without_descriptors_connections_wait_and_the_proxy_does_not_spin(
    network, failed, monkeypatch
):
    proxy, _ = network
    connection = proxy.connect()
    assert becomes(lambda: len(failed) > 3)
    assert failed[3] - failed[0] >= 3 * RETRY_SECONDS
    monkeypatch.undo()
    connection.introduced()


def test_without_descriptors_a_node_that_is_gone_is_noticed(network, failed):
    proxy, node = network
    connection = proxy.connect()
    assert becomes(lambda: bool(failed))
    node.kill()
    with pytest.raises(ConnectionResetError):
        connection.receive(1)
    with pytest.raises(ConnectionRefusedError):
        proxy.connect(attempts=1)


FILES = 32
FEW_FILES = """
import resource, socket, sys
from tidelog.testing.nursery import serve_proxy
from tidelog.testing.proxy import Route

files, control, *ports = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
routes = [Route(1, *ports[:2]), Route(2, *ports[2:])]
serve_proxy(routes, socket.socket(fileno=control))
"""


@pytest.mark.slow
def test_more_connections_than_descriptors_are_lived_through():
    ports = Ports(4)
    port, node_port, other_port, other_node_port = ports.numbers
    ours, theirs = socket.socketpair()
    arguments = map(str, (FILES, theirs.fileno(), *ports.numbers))
    process = subprocess.Popen(
        [sys.executable, "-c", FEW_FILES, *arguments], pass_fds=[theirs.fileno()]
    )
    files = Path(f"/proc/{process.pid}/fd")
    node = Echo(node_port)
    connections = [connected(port).introduced()]
    idle = [socket.create_connection((HOST, port)) for _ in range(FILES + 10)]
    assert becomes(lambda: len(list(files.iterdir())) == FILES)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(STALL_SECONDS)
    connections.append(connected(port))
    for one in idle:
        one.close()
    connections[1].introduced()
    other = Echo(other_node_port)
    connections.append(connected(other_port).introduced())
    for one in (ours, theirs, *(connection.socket for connection in connections)):
        one.close()
    assert process.wait(SECONDS_MAX) == 0
    node.kill()
    other.kill()
    ports.release()


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
