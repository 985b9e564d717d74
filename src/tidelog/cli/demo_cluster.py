"""The cluster of `tidelog demo`: three nodes, of which one dies while a producer writes; the others
go on, it comes back, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.cli.connect import connected
from tidelog.cli.demo_clients import PARTITIONS, DemoClient, DemoFailed, Received
from tidelog.cli.demo_offsets import require_count
from tidelog.testing import Cluster, ClusterError

if TYPE_CHECKING:
    from tidelog.cli.demo_view import View
    from tidelog.client import Client

NODES = 3
TOPIC = "storms"
CONFIGS = {"min.insync.replicas": "2"}

Choose = Callable[[str, "Client"], DemoClient]


def show_cluster(view: View, count: int, choose: Choose) -> None:
    """Start it, break it, mend it; then read everything back."""
    began = time.perf_counter()
    try:
        with (
            Cluster(nodes=NODES, configs=CONFIGS) as cluster,
            connected(cluster.bootstrap_servers) as client,
        ):
            seconds = time.perf_counter() - began
            view.done(f"a cluster of {NODES} nodes serves, {seconds:.1f} s after the start")
            cluster.create_topic(TOPIC, PARTITIONS)
            leaders = [cluster.leader(TOPIC, index) for index in range(PARTITIONS)]
            led = ", ".join(f"{TOPIC}-{index} by {node}" for index, node in enumerate(leaders))
            view.done(f"topic {TOPIC}: {NODES} replicas of each partition; {led}")
            break_and_heal(view, cluster, choose(cluster.bootstrap_servers, client), count)
            require_count(client, TOPIC, count)
            view.done(f"{count:,} of {count:,} came back, each once and in order: nothing lost")
    except (ClusterError, TimeoutError) as error:
        raise DemoFailed(str(error)) from None


def break_and_heal(view: View, cluster: Cluster, kafka: DemoClient, count: int) -> None:
    leader = cluster.leader(TOPIC)
    with view.busy(f"{count:,} records are written, and the leader is killed"):
        acknowledged, gap = produce_and_kill(cluster, kafka, leader, count)
    successor = cluster.leader(TOPIC)
    view.done(
        f"kill -9 of node {leader}, the leader of {TOPIC}-0, after {acknowledged:,} records:"
        f" node {successor} leads"
    )
    view.done(
        f"the producer had all {count:,} acknowledged by every replica in sync;"
        f" its longest wait was {gap:.2f} s"
    )
    began = time.perf_counter()
    cluster.start(leader)
    cluster.wait_isr(TOPIC)
    seconds = time.perf_counter() - began
    view.done(f"node {leader} is back: {seconds:.1f} s after its start all replicas are in sync")
    received = Received(count)
    with view.busy("everything is read back"):
        for _ in kafka.consume(TOPIC, received, count):
            pass


def produce_and_kill(
    cluster: Cluster, kafka: DemoClient, leader: int, count: int
) -> tuple[int, float]:
    """How many were acknowledged when the leader was killed; the longest time without news of
    the next."""
    killed_at: int | None = None
    gap, known, since = 0.0, 0, time.perf_counter()
    for acknowledged in kafka.produce(TOPIC, count):
        if acknowledged > known:
            now = time.perf_counter()
            gap, known, since = max(gap, now - since), acknowledged, now
        if killed_at is None and acknowledged >= count // 3:
            assert acknowledged < count  # a third is acknowledged before the last are sent
            cluster.kill(leader)
            killed_at = acknowledged
    if killed_at is None:
        raise DemoFailed(f"only {known:,} of {count:,} records were acknowledged")
    return killed_at, gap
