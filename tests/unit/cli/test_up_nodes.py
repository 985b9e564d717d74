"""`tidelog up --nodes 3`: whose ports are whose, who dies with whom, and who does not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.node import SECONDS_MAX, run, up
from tests.unit.cli.test_up import ended, refused

from tidelog.cli.local_cluster import LocalCluster
from tidelog.client import Client, ClientSettings, parse_servers
from tidelog.client.admin import describe_cluster
from tidelog.testing.ports import Ports

pytestmark = pytest.mark.slow  # every command is a process

NODES = ("--nodes", "3")
IMPATIENT = (
    sys.executable,
    "-c",
    "from tidelog.cli import local_cluster, main; local_cluster.PATIENCE_SECONDS = 0.5; main()",
)


@pytest.fixture
def port() -> Iterator[int]:
    """The first of six."""
    ports = Ports(6)
    assert ports.numbers == list(range(ports.numbers[0], ports.numbers[0] + 6))
    yield ports.numbers[0]
    ports.release()


def brokers_seen_by(port: int) -> dict[int, tuple[str, bool]]:
    """Those that a client finds who knows this address alone."""
    settings = ClientSettings(bootstrap_servers=parse_servers(f"127.0.0.1:{port}"))
    with Client(settings) as client:
        brokers = client.run(describe_cluster).brokers
    return {one.node_id: (str(one.address), one.is_fenced) for one in brokers}


def create(port: int, topic: str) -> None:
    server = ("--bootstrap-server", f"127.0.0.1:{port}")
    created = run("topics", *server, "--create", "--topic", topic, "--replication-factor", "1")
    assert created.stdout == f"Created topic {topic}.\n", created.stderr


def test_ports_processes_and_deaths(tmp_path: Path, port: int) -> None:
    with up(tmp_path, *NODES, port=port) as command:
        servers = ",".join(f"127.0.0.1:{port + i}" for i in range(3))
        assert command.ready == f"Tidelog is ready at {servers} (3 nodes, data in {tmp_path})\n"
        expected = {i + 1: (f"127.0.0.1:{port + i}", False) for i in range(3)}
        for i in range(3):
            assert brokers_seen_by(port + i) == expected
            socket.create_connection(("127.0.0.1", port + 3 + i)).close()  # its controller
        nodes = command.nodes
        assert list(nodes) == ["node-1", "node-2", "node-3"], "started in the order of their ports"
        assert {os.getpgid(node) for node in nodes.values()} == {os.getpgid(command.process.pid)}

        os.kill(nodes["node-2"], signal.SIGKILL)
        said = f"node 2 (process {nodes.pop('node-2')}) ended with SIGKILL; see {tmp_path}"
        assert command.line() == f"{said}/node-2.log\n"
        for i in (0, 2):
            create(port + i, f"made-by-{i}")
        assert command.nodes == nodes, "none is started again, and none stopped"

        command.end(signal.SIGKILL)
        assert all(map(ended, nodes.values()))
    line = refused("up", "--port", str(port), "--data-dir", str(tmp_path))
    assert "holds a cluster of 3 nodes: start it with --nodes 3" in line


def test_a_node_that_does_not_start_stops_no_other(tmp_path: Path, port: int) -> None:
    directory = tmp_path / "node-2"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    (tmp_path / "cluster.properties").write_text("nodes=3\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    with up(tmp_path, *NODES, port=port, program=IMPATIENT) as command:
        assert command.ready.startswith("node 2 ")
        assert command.ready.endswith(f" ended with exit code 1; see {tmp_path}/node-2.log\n")
        said = f"not every broker serves after 0.5 s: see the logs in {tmp_path}\n"
        assert command.line() == said
        assert list(command.nodes) == ["node-1", "node-3"]
        create(port + 2, "t")
        assert command.end() == (0, "")


def test_standard_output_has_the_address_alone(tmp_path: Path, port: int) -> None:
    with up(tmp_path, port=port, stderr=subprocess.PIPE) as command:
        os.kill(command.node, signal.SIGKILL)
        said, news = command.process.communicate(timeout=SECONDS_MAX)
    assert command.ready.startswith("Tidelog is ready at ")
    assert said == ""
    assert "ended with SIGKILL" in news


def test_a_broker_that_others_do_not_know_of_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster(3, 20_000, tmp_path, {})
    asked: list[str] = []

    def sees_all(server: str) -> bool:
        asked.append(server)
        return server != "127.0.0.1:20002"

    monkeypatch.setattr(cluster, "_sees_all", sees_all)
    assert not cluster._is_ready()
    assert asked == cluster.servers
