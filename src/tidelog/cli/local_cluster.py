"""A cluster of child processes on this machine: forked after importing once, watched, stopped.

The children are in this command's process group and get SIGTERM when it dies, however it dies.
No socket is open when they are forked: a node's listener belongs to the node alone, so that a
refused connection proves its death.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli.properties import parse_properties
from tidelog.disk import RealDisk
from tidelog.env import AlreadyLocked
from tidelog.log.log_dir import LOCK
from tidelog.metadata.format import random_uuid
from tidelog.server.forking import fork
from tidelog.types import format_uuid

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

HOST = "127.0.0.1"
MARKER = "cluster.properties"
"""In the data directory: of how many nodes it is, and the id that they were formatted with."""
PATIENCE_SECONDS = 120
"""After so long somebody who waits for all brokers wants to know that one is missing."""
STOP_SECONDS_MAX = 30
STOP_TOLD_SECONDS = 5.0
"""Whoever waits for longer wants to know what for."""
POLL_SECONDS = 0.02
PATIENT_POLL_SECONDS = 1.0

Say = Callable[[str], object]


class CannotStart(Exception):
    """One line that says why, and what to do."""


class Node(NamedTuple):
    """One child before it is one."""

    node_id: int
    config: BrokerConfig
    log: Path


class Stop(Exception):
    """Somebody wants the cluster to end."""


class LocalCluster:
    """The nodes 1 to N. Configs given by the user win over those that we choose."""

    def __init__(
        self,
        nodes: int,
        port: int,
        data_dir: Path,
        configs: Mapping[str, str],
        racks: Sequence[str] = (),
    ) -> None:
        if not all(racks) or len(racks) > nodes:
            raise CannotStart(f"--racks names 1 to {nodes} racks, with commas between")
        if port + 2 * nodes - 1 > 65535:
            raise CannotStart(f"--port {port} leaves no room for {2 * nodes} ports; choose a lower")
        self.servers = [f"{HOST}:{port + i}" for i in range(nodes)]
        self.bootstrap_servers = ",".join(self.servers)
        self.data_dir = data_dir
        self._racks = racks
        self.nodes = [
            self._node(number, nodes, port, data_dir, configs) for number in range(1, nodes + 1)
        ]
        self._ports = range(port, port + 2 * nodes)
        self._running: dict[int, Node] = {}
        self._cluster_id: str | None = None

    def run(self, announce: Say, say: Say) -> int:
        """Until Ctrl-C, SIGTERM or the last node's death; the exit code. What is announced is
        the one line with the address, everything else is said."""
        self._require_own_directory()
        self._require_unlocked()
        self._require_free_ports()
        self._claim_directory()
        signal.signal(signal.SIGTERM, _raise_stop)
        signal.signal(signal.SIGINT, _raise_stop)
        try:
            # In port order, after the one import that all of them share.
            from tidelog.server.run import run

            for node in self.nodes:
                served = partial(run, node.config, cluster_id=self._cluster_id)
                self._running[fork(served, node.log)] = node
            self._wait_until_ready(say)
            count = f"{len(self.nodes)} node{'s' if len(self.nodes) > 1 else ''}"
            where = f"{self.bootstrap_servers} ({count}, data in {self.data_dir})"
            announce(f"Tidelog is ready at {where}")
            sys.stdout.flush()
            while self._running:
                self._bury(say, os.waitpid(-1, 0))
            say("no node is left")
            return 1
        except Stop:
            return self._stop(say)

    def _node(
        self, number: int, nodes: int, port: int, data_dir: Path, configs: Mapping[str, str]
    ) -> Node:
        from tidelog.broker.replica_selector import RACK_AWARE
        from tidelog.config.broker import BrokerConfig
        from tidelog.config.definition import InvalidConfig

        replicas = str(min(nodes, 3))
        voters = (f"{i + 1}@{HOST}:{port + nodes + i}" for i in range(nodes))
        broker = f"PLAINTEXT://{HOST}:{port + number - 1}"
        own = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "listeners": f"{broker},CONTROLLER://{HOST}:{port + nodes + number - 1}",
            "advertised.listeners": broker,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str((data_dir / f"node-{number}").absolute()),
        }
        if self._racks:
            own["broker.rack"] = self._racks[(number - 1) % len(self._racks)]
        for name in own.keys() & configs.keys():
            raise CannotStart(
                f"--config {name}: `tidelog up` sets it itself; `tidelog start` takes your own"
            )
        defaults = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "2" if nodes > 2 else "1",
        }
        if self._racks:
            defaults["replica.selector.class"] = RACK_AWARE
        try:
            config = BrokerConfig.from_properties({**defaults, **configs, **own})
        except InvalidConfig as error:
            raise CannotStart(str(error)) from None
        return Node(number, config, data_dir / f"node-{number}.log")

    def _require_own_directory(self) -> None:
        """It is ours and of as many nodes, or it is empty or not there."""
        marker = self.data_dir / MARKER
        try:
            if marker.exists():
                known = parse_properties(marker.read_text("utf-8"))
                self._cluster_id = known.get("cluster.id")
                before = known.get("nodes", "?")
                if before != str(len(self.nodes)):
                    raise CannotStart(
                        f"{self.data_dir} holds a cluster of {before} nodes: start it with "
                        f"--nodes {before}, or choose another --data-dir"
                    )
            elif self.data_dir.exists() and any(self.data_dir.iterdir()):
                raise CannotStart(
                    f"{self.data_dir} is not empty, and `tidelog up` did not make it: "
                    "choose an empty or a new --data-dir"
                )
        except OSError as error:
            raise CannotStart(f"{self.data_dir}: {error.strerror}") from None

    def _claim_directory(self) -> None:
        """Make it ours, when nothing is in the way: one that never started leaves no trace."""
        marker = self.data_dir / MARKER
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            if not marker.exists():
                self._cluster_id = format_uuid(random_uuid(random.SystemRandom()))
                lines = f"nodes={len(self.nodes)}\ncluster.id={self._cluster_id}\n"
                marker.write_text(lines, "utf-8")
        except OSError as error:
            raise CannotStart(f"{self.data_dir}: {error.strerror}") from None

    def _require_unlocked(self) -> None:
        """A node would see for itself, but too late: when its log, which is the other's, is
        written to. Asked before the ports, which the same other may hold."""
        disk = RealDisk()
        for node in self.nodes:
            for directory in filter(disk.is_directory, node.config.data_dirs):
                try:
                    disk.lock(f"{directory}/{LOCK}")
                except AlreadyLocked:
                    raise CannotStart(
                        f"{self.data_dir} is in use by another process: stop that one first, or"
                        " choose another --data-dir"
                    ) from None
                except OSError as error:
                    raise CannotStart(f"{directory}: {error.strerror}") from None
                disk.unlock(f"{directory}/{LOCK}")

    def _require_free_ports(self) -> None:
        for port in self._ports:
            try:
                socket.create_server((HOST, port)).close()
            except OSError as error:
                reason = os.strerror(error.errno or 0).lower()
                raise CannotStart(f"port {port}: {reason}; choose others with --port") from None

    def _wait_until_ready(self, say: Say) -> None:
        """Until every broker is unfenced and in the Metadata of each. One that died is told, and
        so is a long wait; the others serve all the while."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        pause = POLL_SECONDS
        while not self._is_ready():
            while True:
                process_id, status = os.waitpid(-1, os.WNOHANG)
                if not process_id:
                    break
                if len(self._running) == 1:
                    node = self._running.pop(process_id)
                    last = _last_line(node.log)
                    raise CannotStart(f"no node started: {last} (see {node.log})")
                self._bury(say, (process_id, status))
            if pause == POLL_SECONDS and time.monotonic() > deadline:
                pause = PATIENT_POLL_SECONDS
                say(
                    f"not every broker serves after {PATIENCE_SECONDS} s: see the logs in"
                    f" {self.data_dir}"
                )
            time.sleep(pause)

    def _is_ready(self) -> bool:
        """Asks each, not the first that answers: a client may begin with any of them."""
        return all(map(self._sees_all, self.servers))

    def _sees_all(self, server: str) -> bool:
        from tidelog.client import Client, ClientError, ClientSettings, parse_servers
        from tidelog.client.admin import describe_cluster

        settings = ClientSettings(
            bootstrap_servers=parse_servers(server),
            bootstrap_timeout_ms=1,
            timeout_ms=1_000,
        )
        wanted = {node.node_id for node in self.nodes}
        with Client(settings) as client:
            try:
                brokers = client.run(describe_cluster).brokers
            except ClientError:
                return False
        return wanted <= {broker.node_id for broker in brokers if not broker.is_fenced}

    def _bury(self, say: Say, ended: tuple[int, int]) -> None:
        process_id, status = ended
        node = self._running.pop(process_id)
        code = os.waitstatus_to_exitcode(status)
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        say(f"node {node.node_id} (process {process_id}) ended with {how}; see {node.log}")

    def _stop(self, say: Say) -> int:
        """Ask the nodes to finish, then insist; a second Ctrl-C insists at once. Those that are
        left without a majority are asked again: they would wait for it."""
        self._signal(signal.SIGTERM)
        began = time.monotonic()
        deadline, told = began + STOP_SECONDS_MAX, began + STOP_TOLD_SECONDS
        code = 0
        while self._running:
            try:
                process_id, status = os.waitpid(-1, os.WNOHANG)
                if process_id:
                    node = self._running.pop(process_id)
                    if status:
                        code = 1
                        how = os.waitstatus_to_exitcode(status)
                        say(f"node {node.node_id} did not stop cleanly ({how}); see {node.log}")
                elif time.monotonic() > deadline:
                    raise Stop
                elif time.monotonic() > told:
                    told = inf
                    left = ", ".join(str(node.node_id) for node in self._running.values())
                    say(f"waiting for node {left} to stop; Ctrl-C again kills at once")
                else:
                    time.sleep(POLL_SECONDS)
                    if len(self._running) * 2 <= len(self.nodes):
                        self._signal(signal.SIGTERM)
            except Stop:
                self._signal(signal.SIGKILL)
                deadline = time.monotonic() + STOP_SECONDS_MAX
        return code

    def _signal(self, number: signal.Signals) -> None:
        for process_id in self._running:
            os.kill(process_id, number)


def _raise_stop(number: int, frame: object) -> None:
    raise Stop


def _last_line(log: Path) -> str:
    """What the node said last, without time, level and logger."""
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return re.sub(r"^\S+ \S+ [A-Z]+ +\S+ ", "", lines[-1]) if lines else "it said nothing"
