"""Clusters for tests: real processes, killed, paused and cut off, and all gone at the end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tidelog.testing import Cluster, ClusterError
from tidelog.testing.layout import PORTS_A_NODE, Layout
from tidelog.testing.observer import Observer

pytestmark = pytest.mark.slow

SECONDS_MAX = 60
QUICK = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "1500",
    "min.insync.replicas": "2",
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=3, configs=QUICK) as cluster:
        cluster.create_topic("t", partitions=3)
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """As it was, whatever a test did to it."""
    yield shared
    shared.heal()
    shared.wait_isr("t", timeout=SECONDS_MAX)


def producer(servers: str, *, seconds: int = SECONDS_MAX) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "message.timeout.ms": seconds * 1000,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
    )


def acknowledged(by: str | Producer, topic: str = "t") -> bool:
    """Whether a record is, by all replicas in sync."""
    one = producer(by) if isinstance(by, str) else by
    outcomes: list[bool] = []
    one.produce(
        topic, b"x", partition=0, on_delivery=lambda error, _: outcomes.append(error is None)
    )
    one.flush(SECONDS_MAX + 10)
    return outcomes == [True]


def brokers(servers: str) -> list[int]:
    """As one of these knows them, or one of those that it names: the client chooses."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return sorted(admin.list_topics(timeout=SECONDS_MAX).brokers)


def is_alive(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_any_client_finds_the_brokers(cluster):
    assert brokers(cluster.bootstrap_servers) == [1, 2, 3]
    assert cluster.leader("t") in cluster.nodes
    assert cluster.isr("t") == {1, 2, 3}
    assert cluster.controller() in cluster.nodes


def test_a_killed_leader_is_followed_by_another_and_comes_back(cluster):
    leader = cluster.leader("t")
    cluster.kill(leader)
    assert acknowledged(cluster.bootstrap_servers)
    assert cluster.leader("t") != leader
    cluster.wait_isr("t", 0, set(cluster.nodes) - {leader})
    cluster.start(leader)
    cluster.wait_isr("t", isr=cluster.nodes)


def test_a_topic_that_a_write_makes_outlives_its_leader(cluster):
    assert acknowledged(cluster.bootstrap_servers, "made-by-a-write")
    cluster.wait_isr("made-by-a-write", 0, cluster.nodes)
    leader = cluster.leader("made-by-a-write")
    cluster.kill(leader)
    assert cluster.leader("made-by-a-write") != leader
    cluster.start(leader)


@pytest.mark.parametrize(
    ("nodes", "configs", "factor"),
    [(1, {}, "1"), (2, {}, "2"), (5, {}, "3"), (3, {"default.replication.factor": "1"}, "1")],
)
def test_topics_have_as_many_replicas_as_there_are_nodes(nodes, configs, factor):
    layout = Layout(nodes, list(range(nodes * PORTS_A_NODE)))
    assert not layout.owns("default.replication.factor")
    assert layout.properties(1, Path(), configs)["default.replication.factor"] == factor


def test_a_node_stops_cleanly_and_starts_again(cluster):
    cluster.stop(2)
    assert "stopped cleanly" in cluster.last_line(2)
    with pytest.raises(ClusterError, match="node 2 is down"):
        cluster.kill(2)
    cluster.restart(2)
    cluster.restart(2)
    assert brokers(cluster.address(2)) == [1, 2, 3]


@pytest.mark.parametrize("is_controller", [True, False])
def test_the_last_of_three_waits_for_nobody_to_take_over(cluster, is_controller):
    controller = cluster.controller()
    last = controller if is_controller else controller % 3 + 1
    for node in set(cluster.nodes) - {last}:
        cluster.kill(node)
    cluster.stop(last)
    said = "\n".join(cluster.tail(last))
    assert "nobody can take over what this node leads" in said
    assert "waits for others to take over" not in said
    assert "stopped cleanly" in cluster.last_line(last)
    cluster.start(*cluster.down)


def test_a_paused_node_falls_out_of_the_isr_and_comes_back(cluster):
    leader = cluster.leader("t")
    cluster.pause(leader)
    cluster.wait_isr("t", 0, set(cluster.nodes) - {leader})
    assert cluster.leader("t") != leader
    with pytest.raises(ClusterError, match=f"node {leader} is paused"):
        cluster.stop(leader)
    cluster.resume(leader)
    cluster.wait_isr("t")


def test_several_nodes_at_once_or_none(cluster):
    cluster.pause(1, 2, 1)
    with pytest.raises(ClusterError, match="node 1 is paused"):
        cluster.pause(3, 1)
    with pytest.raises(ClusterError, match="node 3 is running"):
        cluster.resume(1, 3)
    cluster.resume(1, 2)
    cluster.kill(1, 2, 1)
    with pytest.raises(ClusterError, match="node 2 is down"):
        cluster.kill(3, 2)
    assert cluster.down == (1, 2)
    cluster.start(*cluster.down)
    cluster.stop(*cluster.nodes)
    assert all("stopped cleanly" in cluster.last_line(node) for node in cluster.nodes)
    cluster.start(*cluster.down)


def test_an_isolated_leader_serves_clients_and_is_alone(cluster):
    leader = cluster.leader("t")
    # A client that knows it: one that comes later is told of all brokers by the first that it
    # asks, and may go on with any of them.
    known = producer(cluster.address(leader), seconds=5)
    assert acknowledged(known)
    cluster.isolate(leader)
    cluster.wait_isr("t", 0, set(cluster.nodes) - {leader})
    assert cluster.leader("t") != leader
    (own,) = Observer([cluster.address(leader)]).views("t")
    assert own[0].leader_id == leader, "clients still reach it, and it has heard nothing"
    others = ",".join(cluster.address(node) for node in cluster.nodes if node != leader)
    assert acknowledged(others)
    assert not acknowledged(known)
    cluster.heal()
    cluster.wait_isr("t")
    assert acknowledged(cluster.address(leader))


def test_connections_that_are_cut_are_made_again(cluster):
    controller = cluster.controller()
    for node in cluster.nodes:
        cluster.cut(node)
    assert acknowledged(cluster.bootstrap_servers)
    assert cluster.controller() == controller, "nobody was missed"


def test_a_broker_that_has_not_caught_up_does_not_listen_to_clients(cluster):
    cluster.kill(1)
    cluster.isolate(1)
    with pytest.raises(TimeoutError, match=r"node 1 did not serve within 1 s"):
        cluster.start(1, timeout=1)
    host, port = cluster.address(1).split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=SECONDS_MAX)
    cluster.heal()
    cluster.wait_isr("t")
    assert brokers(cluster.address(1)) == [1, 2, 3]


def test_waiting_says_what_it_saw(cluster):
    with pytest.raises(TimeoutError, match=r"the ISR of t-0 is \[1, 2, 3\], not \[1\]"):
        cluster.wait_isr("t", 0, {1}, timeout=0.1)
    with pytest.raises(TimeoutError, match="there is no partition nope-0"):
        cluster.leader("nope", timeout=0.1)
    with pytest.raises(TimeoutError, match="there is no nope"):
        cluster.wait_isr("nope", timeout=0.1)


def test_a_topic_that_cannot_be_made_is_said(cluster):
    with pytest.raises(ClusterError, match=r"topic t: .*already exists"):
        cluster.create_topic("t")
    with pytest.raises(ClusterError, match=r"topic wide: .*replication factor.* 4"):
        cluster.create_topic("wide", replication_factor=4)
    with pytest.raises(ClusterError, match=r"topic odd: .*no\.such"):
        cluster.create_topic("odd", configs={"no.such": "1"})


def test_the_isr_of_what_is_not_there_is_said(cluster):
    with pytest.raises(TimeoutError, match="there is no partition t-9"):
        cluster.isr("t", 9, timeout=0.1)


def test_what_cannot_be_done_is_said(cluster):
    for call in (cluster.kill, cluster.start, cluster.isolate, cluster.log):
        with pytest.raises(ValueError, match="there is no node 9: the nodes are 1 to 3"):
            call(9)
    with pytest.raises(ClusterError, match="node 1 is running"):
        cluster.start(1)
    with pytest.raises(ClusterError, match="node 1 is running"):
        cluster.resume(1)
    with pytest.raises(ValueError, match="1 to 20 nodes, not 0"):
        Cluster(nodes=0)
    with pytest.raises(ClusterError, match="use it in a with block"):
        Cluster().kill(1)


def test_data_stays_where_it_was_told_to(tmp_path):
    for _ in range(2):
        with Cluster(nodes=1, data_dir=tmp_path, configs={"num.partitions": "4"}) as cluster:
            if not (tmp_path / "node-1" / "t-0").exists():
                cluster.create_topic("t", partitions=4)
            cluster.wait_isr("t", 3, {1})
            with pytest.raises(ClusterError, match="no connections to others"):
                cluster.isolate(1)
            process_id = cluster._process_ids[1]
            assert is_alive(process_id)
        assert not is_alive(process_id)
    assert (tmp_path / "node-1" / "t-3").is_dir()


def test_temporary_data_goes(tmp_path):
    with Cluster(nodes=1) as cluster:
        directory = cluster.directory
        assert directory.is_dir()
    assert not directory.exists()


@pytest.mark.parametrize(
    ("configs", "said"),
    [({"num.partitions": "none"}, "num.partitions"), ({"no.such": "1"}, "no.such")],
)
def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(configs, said):
    cluster = Cluster(nodes=1, configs=configs)
    with pytest.raises(ClusterError, match=said), cluster:
        pass
    assert not cluster.directory.exists()


def test_a_node_that_does_not_start_is_told_with_its_own_words(tmp_path):
    (tmp_path / "node-1").write_text("in the way")
    with pytest.raises(ClusterError, match=r"node 1 ended with 1: .*node-1"):
        Cluster(nodes=1, data_dir=tmp_path).__enter__()
