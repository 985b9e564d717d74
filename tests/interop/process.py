"""A node as a process of its own, whoever wrote it: start, wait until it serves, stop, kill."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidelog.server.forking import with_parent
from tidelog.testing.ports import free_ports

START_SECONDS_MAX = 300
STOP_SECONDS_MAX = 120
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A hundred years: the suites' records are as old as 1970. By Kafka's default of a week every
    # look at retention, one in five minutes, deletes what a test has just written.
    "log.retention.hours": "876000",
}


def wait_until_serving(
    bootstrap_servers: str, process: subprocess.Popen[bytes], seconds_max: float
) -> None:
    """Until a client sees a broker in Metadata; a node that died or hangs is an error."""
    # Refused connections are what is waited for, so librdkafka does not log them.
    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap_servers,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 50,
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the node ended with exit code {process.returncode}")
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            pass
    raise RuntimeError(f"the node did not serve within {seconds_max} s")


class NodeProcess:
    """One combined node on free loopback ports, configured by a properties file.

    Its directory, if none is given, lives as long as the node; it is kept, and its log shown, when
    the block that uses the node fails.
    """

    def __init__(
        self, directory: Path | None = None, *, properties: Mapping[str, str] | None = None
    ) -> None:
        self.is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="interop-node-"))
        self.log_dir = self.directory / "data"
        self.log_file = self.directory / "server.log"
        port, controller_port = free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.properties = PROPERTIES | {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self.log_dir),
            **(properties or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, config: str) -> list[str]:
        """How a node with this properties file is started."""
        raise NotImplementedError

    def format(self) -> None:
        """Make the log directory, where the node does not do that itself."""

    @property
    def pid(self) -> int:
        assert self.process is not None, "the node is not running"
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        """Of all that it runs in."""
        return [self.pid]

    def write_config(self) -> str:
        """The path of the properties file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        return str(path)

    def launch(self) -> None:
        """Start the process and return at once."""
        assert self.process is None, "the node is running"
        command = self.command(self.write_config())
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=with_parent(),
            )

    def start(self) -> None:
        """Format if the directory is empty, start, and wait until clients are served."""
        if not (self.log_dir / "meta.properties").exists():
            self.format()
        self.launch()
        assert self.process is not None
        try:
            wait_until_serving(self.bootstrap_servers, self.process, START_SECONDS_MAX)
        except BaseException:
            self.kill()
            self.show_log()
            raise

    def stop(self) -> None:
        """SIGTERM and wait: a clean shutdown."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def _end(self, signal_number: int) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal_number)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process = None

    def show_log(self, lines: int = 40) -> None:
        """Print the end of what the node logged, and where the rest is."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        tail = "\n".join(text.splitlines()[-lines:])
        print(f"the end of {self.log_file}:\n{tail}", file=sys.stderr)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.kill()
            self.show_log()
            return
        self.stop()
        if self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
