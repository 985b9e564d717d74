"""A system under measurement: its node, and what the kernel says about it."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.harness.load import (
    Load,
    error_position,
    produce_frame,
    run,
    touch_memory,
)
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 6
PRODUCERS = 2
"""Of one broker. A producer of librdkafka has one thread for each broker: alone, that thread is
slower than either system. Of three brokers, one producer has three such threads."""
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
ADMIN_SECONDS_MAX = 30.0
FIRST_ACK_SECONDS_MAX = 60.0
FOREIGN_CORES_MAX = 0.3
"""A run beside which others used more than this is done again."""

RUNS_MAX = 3
QUIET_SECONDS_MAX = 20.0
SETTLE_SECONDS = 5.0
QUIET_SAMPLE_SECONDS = 0.5


class Served(Protocol):
    """What is measured: a node, or a cluster of them."""

    directory: Path
    bootstrap_servers: str

    @property
    def pids(self) -> list[int]: ...
    def launch(self) -> None: ...
    def stop(self) -> None: ...


class Measured(NamedTuple):
    load: Load
    broker_cpu_seconds: float
    foreign_cores: float
    """Cores used by neither the broker nor the load."""


def busy_seconds() -> float:
    """CPU time that all processes of this machine have used; idle, iowait and steal are not use."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) / TICKS_A_SECOND


def wait_until_quiet() -> None:
    """Until others leave this machine alone for a moment, but not for ever."""
    deadline = time.monotonic() + QUIET_SECONDS_MAX
    while time.monotonic() < deadline:
        busy = busy_seconds()
        time.sleep(QUIET_SAMPLE_SECONDS)
        if busy_seconds() - busy <= FOREIGN_CORES_MAX * QUIET_SAMPLE_SECONDS:
            return


class System:
    """Served under a name, and the topics that the measurements use up. With more replicas than
    one, records wait for all of them."""

    def __init__(self, name: str, node: Served, replicas: int = 1) -> None:
        self.name = name
        self.node = node
        self.replicas = replicas
        self.acks = 1 if replicas == 1 else -1
        self.producers = PRODUCERS if replicas == 1 else 1
        self.is_warming = False
        """Then a run is load, not a measurement: beside whom it runs does not matter."""
        self._serial = itertools.count()
        self._has_idle = False
        self._admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})

    def create_topic(self, partitions: int = PARTITIONS, *, min_isr: int = 1) -> str:
        """A new one for each run: all runs append to empty logs."""
        name = f"bench-{next(self._serial)}"
        config = {"min.insync.replicas": str(min_isr)}
        topic = NewTopic(name, partitions, self.replicas, config=config)
        (created,) = self._admin.create_topics([topic]).values()
        created.result(ADMIN_SECONDS_MAX)
        self.leaders(name)
        return name

    def leaders(self, topic: str) -> list[str]:
        """Of each partition, where its leader is; once every replica is in sync."""
        deadline = time.monotonic() + ADMIN_SECONDS_MAX
        while time.monotonic() < deadline:
            metadata = self._admin.list_topics(topic, timeout=ADMIN_SECONDS_MAX)
            brokers = {number: f"{b.host}:{b.port}" for number, b in metadata.brokers.items()}
            found = sorted(metadata.topics[topic].partitions.items())
            if found and all(len(one.isrs) == self.replicas for _, one in found):
                return [brokers[one.leader] for _, one in found]
            time.sleep(0.01)
        raise TimeoutError(f"{self.name}: the replicas of {topic} are not in sync")

    def delete_topic(self, name: str) -> None:
        (deleted,) = self._admin.delete_topics([name]).values()
        deleted.result(ADMIN_SECONDS_MAX)

    def cpu_seconds(self) -> float:
        """User and system time of the brokers' threads so far."""
        ticks = 0
        for pid in self.node.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS_A_SECOND

    def resident_bytes(self) -> int:
        """Of memory that processes share, each has its part."""
        return sum(map(proportional_bytes, self.node.pids))

    def measure(self, load: Callable[[str], Load]) -> Measured:
        """Run the load on a new topic; again, if the machine was not ours meanwhile."""
        runs = []
        for _ in range(RUNS_MAX):
            runs.append(self._measure_once(load))
            if self.is_warming or runs[-1].foreign_cores <= FOREIGN_CORES_MAX:
                break
        return min(runs, key=lambda measured: measured.foreign_cores)

    def _measure_once(self, load: Callable[[str], Load]) -> Measured:
        topic = self.create_topic()
        if not self.is_warming:
            wait_until_quiet()
        touch_memory(self.replicas)
        busy, broker, started = busy_seconds(), self.cpu_seconds(), time.monotonic()
        report = load(topic)
        elapsed = time.monotonic() - started
        broker_used = self.cpu_seconds() - broker
        foreign = busy_seconds() - busy - broker_used - report.cpu_seconds
        self.delete_topic(topic)
        return Measured(report, broker_used, max(foreign, 0.0) / elapsed)

    # The loads.

    def produce(self, record_bytes: int, batch_bytes: int, records: int) -> Measured:
        servers = self.node.bootstrap_servers
        shape = (PARTITIONS, record_bytes, records, batch_bytes, self.acks, 5, self.producers)
        return self.measure(lambda topic: run("produce", servers, topic, *shape))

    def paced(self, records_a_second: int, records: int) -> Measured:
        servers = self.node.bootstrap_servers
        shape = (PARTITIONS, 100, records, records_a_second, self.acks)
        return self.measure(lambda topic: run("paced", servers, topic, *shape))

    def requests(self, connections: int, depth: int, seconds: float) -> Measured:
        path = self.node.directory / "frames"

        def load(topic: str) -> Load:
            numbers = range(PARTITIONS)
            path.write_bytes(b"".join(produce_frame(topic, n, 100, self.acks) for n in numbers))
            shape = (PARTITIONS, connections, depth, seconds, error_position(topic))
            return run("blast", ",".join(self.leaders(topic)), path, *shape)

        return self.measure(load)

    def idle_cores(self, partitions: int, seconds: float) -> float:
        """What the brokers use of a core while nobody asks them for anything."""
        if not self._has_idle:
            # Once: what is deleted is removed a minute later, and would be measured then.
            self.create_topic(partitions)
            self._has_idle = True
        time.sleep(SETTLE_SECONDS)
        used, started = self.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_seconds() - used) / (time.monotonic() - started)

    def first_ack_seconds(self, topic: str) -> float:
        """From the command that starts what is stopped to the first acknowledged record, which all
        replicas have, if the topic says so."""
        frame, position = produce_frame(topic, 0, 100, self.acks), error_position(topic)
        started = time.monotonic()
        self.node.launch()
        for address in itertools.cycle(self.node.bootstrap_servers.split(",")):
            if time.monotonic() - started > FIRST_ACK_SECONDS_MAX:
                break
            host, _, port = address.partition(":")
            try:
                with socket.create_connection((host, int(port)), timeout=5) as connection:
                    if not answers_with_error(connection, frame, position):
                        return time.monotonic() - started
            except OSError:
                pass
            time.sleep(0.002)
        raise TimeoutError(f"{self.name} acknowledged nothing in {FIRST_ACK_SECONDS_MAX} s")


def proportional_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("a process has a size")


def answers_with_error(connection: socket.socket, frame: bytes, position: int) -> bool:
    connection.sendall(frame)
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
        received = connection.recv(4096)
        if not received:
            raise ConnectionResetError
        answer += received
    return answer[position : position + 2] != b"\0\0"
