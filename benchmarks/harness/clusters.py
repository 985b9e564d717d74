"""Three nodes as one thing that is started, measured and stopped."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.interop.apache import ApacheKafka
from tests.interop.process import NodeProcess

from tidelog.server.forking import with_parent
from tidelog.testing.ports import free_ports

NODES = 3
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 20.0
HOST = "127.0.0.1"


class ThreeNodes:
    """The parts that both kinds share."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="three-nodes-"))
        self.bootstrap_servers = ""

    @property
    def pids(self) -> list[int]:
        raise NotImplementedError

    def launch(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.launch()
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def _wait(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                if len(admin.list_topics(timeout=1).brokers) == NODES:
                    return
            except KafkaException:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"{self.directory}: the nodes do not serve")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if kind is None:
            shutil.rmtree(self.directory, ignore_errors=True)


class TidelogCluster(ThreeNodes):
    """By `tidelog up`, which formats an empty directory itself."""

    def __init__(self) -> None:
        super().__init__()
        self.process: subprocess.Popen[bytes] | None = None
        first = free_ports(2 * NODES)[0]
        command = str(Path(sys.executable).with_name("tidelog"))
        where = ("--port", str(first), "--data-dir", str(self.directory / "data"))
        self.command = [command, "up", "--nodes", str(NODES), *where]
        self.bootstrap_servers = ",".join(f"{HOST}:{first + i}" for i in range(NODES))

    @property
    def pids(self) -> list[int]:
        """The command's and its nodes'."""
        assert self.process is not None, "the cluster is not running"
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def launch(self) -> None:
        with (self.directory / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=with_parent(),
            )

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_SECONDS_MAX)
        self.process = None


class ApacheCluster(ThreeNodes):
    """Three processes, formatted and configured as an operator does it."""

    def __init__(self) -> None:
        super().__init__()
        ports = free_ports(2 * NODES)
        brokers, controllers = ports[:NODES], ports[NODES:]
        voters = ",".join(f"{i + 1}@{HOST}:{port}" for i, port in enumerate(controllers))
        self.nodes: list[NodeProcess] = []
        for i, (port, controller) in enumerate(zip(brokers, controllers, strict=True)):
            properties = {
                "node.id": str(i + 1),
                "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
                "controller.quorum.voters": voters,
            }
            self.nodes.append(ApacheKafka(self.directory / str(i + 1), properties=properties))
        self.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in brokers)
        for node in self.nodes:
            node.format()

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes]

    def launch(self) -> None:
        for node in self.nodes:
            node.launch()

    def stop(self) -> None:
        """All at once, for one that is alone waits for others to take over: perhaps for ever, so
        that it is killed in the end."""
        for node in self.nodes:
            if node.process is not None:
                node.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for node in self.nodes:
            if node.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    node.process.wait(max(0, deadline - time.monotonic()))
                node.kill()
