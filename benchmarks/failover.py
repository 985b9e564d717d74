"""Kill -9, restart and rolling restart of a cluster of three, as a librdkafka producer sees them.

Timeouts are the defaults; the topic has 300 partitions of three replicas, so that every node has
all of them and leads a hundred: leaders are back where they belong before the next node dies. Exits
1 if a target is missed, or was not measured.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import ElectionType, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table
from tests.interop.mixed import MemberOfTidelog
from tests.interop.process import NodeProcess

from tidelog.testing.ports import free_ports

HOST = "127.0.0.1"
NODES = (1, 2, 3)
PARTITIONS = 300
KILLS = 20
TOPIC = "orders"
WAIT_SECONDS_MAX = 60.0
SEND_SECONDS = 0.001
ACTIVE = re.compile(r"^(\S+ \S+) \w+ +tidelog.controller the active controller is here", re.M)

KILL_GAP = "kill -9: longest gap between acks, s"
KILL_WAIT = "kill -9: longest wait of a record for its ack, s"
KILL_PARTITION_GAP = "kill -9: longest gap between acks of one partition, s"
ACTIVATION = "kill -9 of the active controller: the next is active, s"
RESTART = "restart: back in every ISR after its start, s"
ROLLING_GAP = "rolling restart: longest gap between acks, s"
ROLLING_WAIT = "rolling restart: longest wait of a record for its ack, s"
ERRORS = "errors that the producer saw"
TARGETS = {
    KILL_GAP: 1.0,
    KILL_WAIT: 1.0,
    KILL_PARTITION_GAP: 1.0,
    ACTIVATION: 0.3,
    RESTART: 2.0,
    ROLLING_GAP: 0.3,
    ROLLING_WAIT: 0.3,
    ERRORS: 0,
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
    """A producer with acks=all and idempotence that never stops, and when it heard what. It
    writes to all partitions in turn, or to one."""

    def __init__(self, bootstrap_servers: str, partition: int | None = None) -> None:
        self._partition = partition
        self.acked: list[tuple[float, float]] = []
        """Of each record when it was acknowledged, and for how long it had waited."""
        self.waiting: dict[int, float] = {}
        """Since when, by number."""
        self.errors: list[str] = []
        self._is_over = False
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            "error_cb": self._erred,
        }
        self._producer = Producer(settings)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._produce()
        except Exception as error:
            self.errors.append(f"the producer gave up: {error!r}")

    def _produce(self) -> None:
        number = 0
        while not self._is_over:
            told = partial(self._told, number)
            self.waiting[number] = time.time()
            partition = number % PARTITIONS if self._partition is None else self._partition
            self._producer.produce(TOPIC, b"%d" % number, partition=partition, on_delivery=told)
            number += 1
            self._producer.poll(SEND_SECONDS)
        self._producer.flush(WAIT_SECONDS_MAX)

    def _erred(self, error: KafkaError) -> None:
        """A connection that ends when a node does is none; that nobody is left to ask is one."""
        if error.code() != KafkaError._TRANSPORT:
            self.errors.append(str(error))

    def _told(self, number: int, error: Any, message: Any) -> None:
        now = time.time()
        sent = self.waiting.pop(number)
        if error is None:
            self.acked.append((now, now - sent))
        else:
            self.errors.append(str(error))

    def gap(self, since: float) -> float:
        """The longest time without an ack of any partition, from a moment on."""
        moments = [since, *(moment for moment, _ in self.acked if moment >= since), time.time()]
        return max(after - before for before, after in pairwise(moments))

    def wait(self, since: float) -> float:
        """The longest that a record waited for its ack, whatever others got meanwhile."""
        now = time.time()
        over = [waited for moment, waited in self.acked if moment >= since]
        return max([*over, *(now - sent for sent in list(self.waiting.values()))], default=0.0)

    def end(self) -> None:
        """What was never acknowledged is an error, as what was refused is."""
        self._is_over = True
        self._thread.join(2 * WAIT_SECONDS_MAX)
        if self._thread.is_alive():
            self.errors.append("the producer did not end")
        if self.waiting:
            self.errors.append(f"{len(self.waiting)} records were never acknowledged")


def until(is_so: Callable[[], bool]) -> float:
    """How long it took."""
    begin = time.monotonic()
    while not is_so():
        if time.monotonic() - begin > WAIT_SECONDS_MAX:
            raise TimeoutError(f"not within {WAIT_SECONDS_MAX} s")
        time.sleep(0.02)
    return time.monotonic() - begin


def partitions(admin: AdminClient) -> list[Any]:
    """As somebody knows them; none if nobody does."""
    try:
        return list(admin.list_topics(TOPIC, timeout=2).topics[TOPIC].partitions.values())
    except KafkaException:
        return []


def is_in_sync(admin: AdminClient) -> bool:
    found = partitions(admin)
    return len(found) == PARTITIONS and all(len(one.isrs) == len(NODES) for one in found)


def give_leaders_back(admin: AdminClient) -> None:
    """Or a node that was killed before would lead nothing when it dies again."""

    def is_balanced() -> bool:
        led = [one.leader for one in partitions(admin)]
        return all(led.count(node) == PARTITIONS // len(NODES) for node in NODES)

    if not is_balanced():
        admin.elect_leaders(ElectionType.PREFERRED).result(WAIT_SECONDS_MAX)
        until(is_balanced)


def run(folder: Path, kills: int, console: Console) -> dict[str, list[float]]:
    measured: dict[str, list[float]] = {name: [] for name in TARGETS}
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
        give_leaders_back(admin)
        time.sleep(1)
        _, controller = nodes.last_activation()
        # Every second time the node that is the active controller too.
        others = [node for node in NODES if node != controller]
        victim = controller if turn % 2 else others[turn // 2 % 2]
        figures = kill(nodes, load, admin, victim, is_controller=victim == controller)
        for name, value in figures.items():
            measured[name].append(value)
        said = "; ".join(f"{name}: {value:.2f}" for name, value in figures.items())
        console.print(f"kill {turn + 1} of {kills}, node {victim}; {said}")
    give_leaders_back(admin)
    time.sleep(1)
    for node in NODES:
        for name, value in restart(nodes, load, admin, node).items():
            measured[name].append(value)
    load.end()
    measured[ERRORS].append(float(len(load.errors)))
    for node in NODES:
        nodes.stop(node)
    return measured


def kill(
    nodes: Nodes, load: Load, admin: AdminClient, victim: int, *, is_controller: bool
) -> dict[str, float]:
    """Kill a node and start it again; what was measured of it."""
    # Who writes to all partitions is refused by one or another of them soon, and then asks who
    # leads each: only who writes to one has to find its new leader by itself.
    led = min(one.id for one in partitions(admin) if one.leader == victim)
    single = Load(nodes.bootstrap_servers, led)
    until(lambda: bool(single.acked))
    killed = time.time()
    nodes.kill(victim)
    time.sleep(4)
    figures = {KILL_GAP: load.gap(killed), KILL_WAIT: load.wait(killed)}
    figures[KILL_PARTITION_GAP] = single.gap(killed)
    single.end()
    figures[ERRORS] = float(len(single.errors))
    if is_controller:
        since = nodes.last_activation()[0] - killed
        figures[ACTIVATION] = since if since > 0 else math.inf  # nobody is, yet
    assert not is_in_sync(admin), "it is out of every ISR, or it cannot come back"
    began = time.monotonic()
    nodes.start(victim)
    until(lambda: is_in_sync(admin))
    figures[RESTART] = time.monotonic() - began
    return figures


def restart(nodes: Nodes, load: Load, admin: AdminClient, node: int) -> dict[str, float]:
    """Stop a node and start it again, until it leads what it led; what was measured of it."""
    began = time.time()
    nodes.stop(node)
    nodes.start(node)
    until(lambda: is_in_sync(admin))
    give_leaders_back(admin)
    time.sleep(1)  # Leaders that have just moved may keep a record waiting.
    return {ROLLING_GAP: load.gap(began), ROLLING_WAIT: load.wait(began)}


def brokers(admin: AdminClient) -> Any:
    try:
        return admin.list_topics(timeout=2).brokers
    except KafkaException:
        return {}


def missed(measured: Mapping[str, list[float]]) -> list[str]:
    """Targets that were exceeded once, or that nothing was measured for."""
    return [name for name, most in TARGETS.items() if max(measured[name], default=math.inf) > most]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    arguments = parser.parse_args()
    console = Console(width=120)
    folder = Path(tempfile.mkdtemp(prefix="failover-"))
    measured = run(folder, arguments.kills, console)
    shutil.rmtree(folder, ignore_errors=True)
    table = Table("", "median", "longest", "at most", "")
    failed = missed(measured)
    for name, target in TARGETS.items():
        values = sorted(measured[name])
        figures = (f"{values[len(values) // 2]:.2f}", f"{values[-1]:.2f}") if values else ("–", "–")
        table.add_row(name, *figures, str(target), "[bold red]missed" if name in failed else "ok")
    console.print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
