"""The simulated shell: virtual time, effects in order, and one seed for all of it."""

from __future__ import annotations

import errno

from tests.unit.node_client import Cluster, create_topic_request, request_frame

from tidelog.events import CloseConnection, Flush
from tidelog.wire.messages import api_versions

ASK = api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")


def test_time_passes_from_event_to_event() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    start = cluster.shell.now
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=123), 12)
    cluster.shell.advance(1_000_000)
    passed = cluster.shell.now.monotonic_ms - start.monotonic_ms
    assert passed == cluster.shell.now.wall_ms - start.wall_ms == 1_000_000
    assert len(cluster.frames()) == 1
    assert cluster.shell.disk.wall_ms == cluster.shell.now.wall_ms


def test_a_frame_may_come_in_pieces_and_with_others() -> None:
    cluster = Cluster()
    frame = request_frame(ASK, None, 1)
    for byte in frame:
        assert cluster.frames() == []
        cluster.shell.send(cluster.connection, bytes([byte]))
    assert len(cluster.frames()) == 1
    cluster.shell.send(cluster.connection, frame * 3)
    assert len(cluster.frames()) == 3


def test_nothing_is_received_after_a_close() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    bad = request_frame(cluster.produce_request("u", b"", acks=0), 9, 1)
    good = request_frame(cluster.produce_request("t", cluster.batch(b"a")), 9, 2)
    cluster.shell.send(cluster.connection, bad + good)
    cluster.shell.send(cluster.connection, good)
    assert cluster.log_end_offset("t") == 0
    assert cluster.frames() == []
    closes = [e for e in cluster.shell.effects if isinstance(e, CloseConnection)]
    assert [effect.connection for effect in closes] == [cluster.connection]


def test_the_node_is_told_of_a_connection_that_it_closed() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=10_000), 12)
    cluster.send(cluster.produce_request("u", b"", acks=0), 9)
    assert len(cluster.partition("t").watchers) == 1
    cluster.shell.advance(0)
    assert len(cluster.partition("t").watchers) == 0


def test_a_flush_happens_when_its_time_has_come() -> None:
    cluster = Cluster()
    cluster.shell.advance(10)  # what comes of the first heartbeat
    cluster.shell.flush_ms = (7, 7)
    cluster.send(create_topic_request("t"))
    assert isinstance(cluster.shell.effects[-1], Flush)
    before = cluster.shell.disk.operations
    cluster.shell.advance(6)
    assert cluster.shell.disk.operations == before
    cluster.shell.advance(1)
    assert cluster.shell.disk.operations > before


def run(seed: int) -> tuple[list[str], bytes]:
    cluster = Cluster(seed=seed)
    for count in range(5):
        cluster.create_topic(f"t{count}")
        cluster.produce(f"t{count}", b"a")
    cluster.crash(lambda path, unsynced: cluster.shell.rng.randrange(unsynced + 1))
    effects = [repr(type(effect)) for effect in cluster.shell.effects]
    content = cluster.shell.disk.read_file("data/__cluster_metadata-0/00000000000000000000.log")
    return effects, content or b""


def test_a_seed_decides_everything() -> None:
    assert run(1) == run(1)
    assert run(1)[1] != run(2)[1]


def test_a_slice_that_cannot_be_read_ends_its_connection_and_its_directory() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    cluster.produce("t", b"a")
    disk = cluster.shell.disk
    disk.fault = lambda operation, path: OSError(errno.EIO, "so") if operation == "read" else None
    cluster.send(cluster.fetch_request("t", 0), 12)
    assert cluster.frames() == []
    assert cluster.shell.closed[cluster.connection].startswith(f"[Errno {errno.EIO}] so")
    cluster.shell.advance(0)
    assert "is offline" in str(cluster.shell.stopped)
