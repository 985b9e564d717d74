"""A system under measurement: its node, and what the kernel says about it."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.load import (
    Load,
    error_position,
    produce_frame,
    run,
    touch_memory,
)
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.process import NodeProcess

PARTITIONS = 6
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
ADMIN_SECONDS_MAX = 30.0
FIRST_ACK_SECONDS_MAX = 60.0
FOREIGN_CORES_MAX = 0.3
"""A run beside which others used more than this is done again."""

RUNS_MAX = 3
QUIET_SECONDS_MAX = 20.0
QUIET_SAMPLE_SECONDS = 0.5


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
    """One node with a name, and the topics that the measurements use up."""

    def __init__(self, name: str, node: NodeProcess) -> None:
        self.name = name
        self.node = node
        self.is_warming = False
        """Then a run is load, not a measurement: beside whom it runs does not matter."""
        self._serial = itertools.count()
        self._admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})

    def create_topic(self) -> str:
        """A new one for each run: all runs append to empty logs."""
        name = f"bench-{next(self._serial)}"
        (created,) = self._admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values()
        created.result(ADMIN_SECONDS_MAX)
        return name

    def delete_topic(self, name: str) -> None:
        (deleted,) = self._admin.delete_topics([name]).values()
        deleted.result(ADMIN_SECONDS_MAX)

    def cpu_seconds(self) -> float:
        """User and system time of the broker's threads so far."""
        text = Path(f"/proc/{self.node.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self.node.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("a process has a resident size")

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
        touch_memory()
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
        shape = (PARTITIONS, record_bytes, records, batch_bytes, 1, 5)
        return self.measure(lambda topic: run("produce", servers, topic, *shape))

    def paced(self, records_a_second: int, records: int) -> Measured:
        servers = self.node.bootstrap_servers
        shape = (PARTITIONS, 100, records, records_a_second, 1)
        return self.measure(lambda topic: run("paced", servers, topic, *shape))

    def requests(self, connections: int, depth: int, seconds: float) -> Measured:
        host, _, port = self.node.bootstrap_servers.partition(":")
        path = self.node.directory / "frames"

        def load(topic: str) -> Load:
            frames = [produce_frame(topic, partition, 100) for partition in range(PARTITIONS)]
            path.write_bytes(b"".join(frames))
            shape = (PARTITIONS, connections, depth, seconds, error_position(topic))
            return run("blast", host, port, path, *shape)

        return self.measure(load)

    def first_ack_seconds(self, topic: str) -> float:
        """From the command that starts a stopped node to its first acknowledged record."""
        frame, position = produce_frame(topic, 0, 100), error_position(topic)
        host, _, port = self.node.bootstrap_servers.partition(":")
        started = time.monotonic()
        self.node.launch()
        while time.monotonic() - started < FIRST_ACK_SECONDS_MAX:
            try:
                with socket.create_connection((host, int(port)), timeout=5) as connection:
                    while answers_with_error(connection, frame, position):
                        time.sleep(0.002)
                    return time.monotonic() - started
            except OSError:
                time.sleep(0.002)
        raise TimeoutError(f"{self.name} acknowledged nothing in {FIRST_ACK_SECONDS_MAX} s")


def answers_with_error(connection: socket.socket, frame: bytes, position: int) -> bool:
    connection.sendall(frame)
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
        received = connection.recv(4096)
        if not received:
            raise ConnectionResetError
        answer += received
    return answer[position : position + 2] != b"\0\0"
