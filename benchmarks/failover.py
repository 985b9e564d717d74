"""Kill -9, restart and rolling restart of a cluster of three, as a librdkafka producer sees them.

Timeouts are the defaults; the topic has 300 partitions of three replicas, so that every node has
all of them and leads a hundred. Exits 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table
from tests.interop.mixed import MemberOfTidelog
from tests.interop.process import NodeProcess

from tidelog.testing.ports import free_ports

HOST = "127.0.0.1"
NODES = (1, 2, 3)
PARTITIONS = 300
TOPIC = "orders"
WAIT_SECONDS_MAX = 60.0
SEND_SECONDS = 0.001
ACTIVE = re.compile(r"^(\S+ \S+) \w+ +tidelog.controller the active controller is here", re.M)

TARGETS = {
    "kill -9: longest gap between acks, s": 1.0,
    "kill -9 of the active controller: the next is active, s": 0.3,
    "restart: back in every ISR after its start, s": 2.0,
    "rolling restart: longest gap between acks, s": 0.3,
    "errors that the producer saw": 0,
}


class Nodes:
    """Three processes, each a broker and a controller."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2 * len(NODES))
        brokers = dict(zip(NODES, ports[: len(NODES)], strict=True))
        controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in controllers.items())
        self.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in brokers.values())
        self.processes: dict[int, NodeProcess] = {}
        for node in NODES:
            listeners = (
                f"PLAINTEXT://{HOST}:{brokers[node]},CONTROLLER://{HOST}:{controllers[node]}"
            )
            properties = {
                "node.id": str(node),
                "listeners": listeners,
                "controller.quorum.voters": voters,
            }
            self.processes[node] = MemberOfTidelog(folder / str(node), properties=properties)
            self.processes[node].format()

    def start(self, node: int) -> None:
        self.processes[node].launch()

    def kill(self, node: int) -> None:
        self.processes[node].kill()

    def stop(self, node: int) -> None:
        self.processes[node].stop()

    def last_activation(self) -> tuple[float, int]:
        """When a controller became active last, by the wall clock, and which."""
        found = [(0.0, 0)]
        for node in NODES:
            for match in ACTIVE.finditer(self.processes[node].log_file.read_text()):
                moment = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f")
                found.append((moment.timestamp(), node))
        return max(found)


class Load:
    """A producer with acks=all and idempotence that never stops, and when it heard what."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.acked: list[float] = []
        self.errors: list[str] = []
        self._is_over = False
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over:
            self._producer.produce(
                TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._told
            )
            number += 1
            self._producer.poll(SEND_SECONDS)
        self._producer.flush(WAIT_SECONDS_MAX)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked.append(time.time())
        else:
            self.errors.append(str(error))

    def gap(self, since: float) -> float:
        """The longest time without an ack, from a moment on."""
        moments = [since, *(moment for moment in self.acked if moment >= since), time.time()]
        return max(after - before for before, after in pairwise(moments))

    def end(self) -> None:
        self._is_over = True
        self._thread.join(WAIT_SECONDS_MAX)


def until(is_so: Callable[[], bool]) -> float:
    """How long it took."""
    begin = time.monotonic()
    while not is_so():
        if time.monotonic() - begin > WAIT_SECONDS_MAX:
            raise TimeoutError(f"not within {WAIT_SECONDS_MAX} s")
        time.sleep(0.02)
    return time.monotonic() - begin


def is_in_sync(admin: AdminClient) -> bool:
    try:
        topic = admin.list_topics(TOPIC, timeout=2).topics[TOPIC]
    except KafkaException:
        return False
    return len(topic.partitions) == PARTITIONS and all(
        len(one.isrs) == len(NODES) for one in topic.partitions.values()
    )


def run(folder: Path, kills: int, console: Console) -> dict[str, list[float]]:
    measured: dict[str, list[float]] = {name: [] for name in TARGETS}
    gap, active, restart, rolling, errors = measured
    nodes = Nodes(folder)
    for node in NODES:
        nodes.start(node)
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap_servers, "log_level": 0})
    wanted = NewTopic(TOPIC, PARTITIONS, len(NODES), config={"min.insync.replicas": "2"})
    until(lambda: len(brokers(admin)) == len(NODES))
    admin.create_topics([wanted])[TOPIC].result(WAIT_SECONDS_MAX)
    until(lambda: is_in_sync(admin))
    load = Load(nodes.bootstrap_servers)
    time.sleep(3)
    for turn in range(kills):
        _, controller = nodes.last_activation()
        # Every second time the node that is the active controller too.
        others = [node for node in NODES if node != controller]
        victim = controller if turn % 2 else others[turn // 2 % 2]
        killed = time.time()
        nodes.kill(victim)
        time.sleep(4)
        measured[gap].append(load.gap(killed))
        if victim == controller:
            measured[active].append(nodes.last_activation()[0] - killed)
        nodes.start(victim)
        measured[restart].append(until(lambda: is_in_sync(admin)))
        figures = [f"{name}: {values[-1]:.2f}" for name, values in measured.items() if values]
        console.print(f"kill {turn + 1} of {kills}, node {victim}; " + "; ".join(figures))
        time.sleep(1)
    for node in NODES:
        began = time.time()
        nodes.stop(node)
        nodes.start(node)
        until(lambda: is_in_sync(admin))
        measured[rolling].append(load.gap(began))
        time.sleep(1)
    load.end()
    measured[errors].append(float(len(load.errors)))
    for node in NODES:
        nodes.stop(node)
    return measured


def brokers(admin: AdminClient) -> Any:
    try:
        return admin.list_topics(timeout=2).brokers
    except KafkaException:
        return {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args()
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="failover-"))
    measured = run(folder, arguments.kills, console)
    shutil.rmtree(folder, ignore_errors=True)
    table = Table("", "median", "longest", "at most")
    missed = False
    for name, target in TARGETS.items():
        values = sorted(measured[name])
        if values:
            missed |= values[-1] > target
            median = values[len(values) // 2]
            table.add_row(name, f"{median:.2f}", f"{values[-1]:.2f}", str(target))
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
