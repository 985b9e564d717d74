"""`tidelog up` and `tidelog start`: real processes, ended in every way."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.unit.cli.node import SCRIPT, SECONDS_MAX, run, up

from tidelog.server.forking import with_parent
from tidelog.testing.ports import Ports, free_ports

pytestmark = pytest.mark.slow  # every command is a process


def ended(process_id: int) -> bool:
    """Wait until this process, of which we are not the parent, is gone."""
    try:
        descriptor = os.pidfd_open(process_id)
    except ProcessLookupError:
        return True
    try:
        readable, _, _ = select.select([descriptor], [], [], SECONDS_MAX)
        return bool(readable)
    finally:
        os.close(descriptor)


def test_one_line_says_where_it_is_ready_and_the_data_outlives_it(tmp_path):
    data = tmp_path / "data"
    with up(data) as command:
        assert command.ready == f"Tidelog is ready at {command.servers} (1 node, data in {data})\n"
        produced = run(
            "produce", "--bootstrap-server", command.servers, "--topic", "orders", stdin="a\nb\n"
        )
        assert produced.returncode == 0, produced.stderr
        assert command.end(signal.SIGINT) == (0, "")
    assert "stopped cleanly" in (data / "node-1.log").read_text()
    with up(data, port=command.port) as again:
        consumed = run(
            "consume", "--bootstrap-server", again.servers, "--topic", "orders",
            "--from-beginning", "--max-messages", "2",
        )  # fmt: skip
        assert consumed.stdout == "a\nb\n"
        assert again.end() == (0, "")


def test_ctrl_c_reaches_the_whole_group_and_stops_it_cleanly(tmp_path):
    with up(tmp_path) as command:
        node = command.node
        assert os.getpgid(node) == os.getpgid(command.process.pid)
        os.killpg(command.process.pid, signal.SIGINT)
        assert command.wait() == (0, "")
        assert ended(node)
    assert "stopped cleanly" in (tmp_path / "node-1.log").read_text()


IMPATIENT = (
    sys.executable,
    "-c",
    "from tidelog.cli import local_cluster, main; local_cluster.STOP_TOLD_SECONDS = 0.1; main()",
)


def test_a_stop_that_takes_long_is_told_and_a_second_ctrl_c_ends_it(tmp_path):
    with up(tmp_path, program=IMPATIENT) as command:
        os.kill(command.node, signal.SIGSTOP)
        command.process.send_signal(signal.SIGINT)
        assert command.line() == "waiting for node 1 to stop; Ctrl-C again kills at once\n"
        code, said = command.end(signal.SIGINT)
    assert (code, said.splitlines()[0][:36]) == (1, "node 1 did not stop cleanly (-9); se")


@pytest.fixture
def ports() -> Iterator[int]:
    """The first of six, for three nodes."""
    held = Ports(6)
    yield held.numbers[0]
    held.release()


def test_the_node_ends_with_a_command_that_is_killed(tmp_path):
    with up(tmp_path) as command:
        node = command.node
        command.end(signal.SIGKILL)
        assert ended(node)


def test_three_nodes_end_with_a_command_that_is_killed_and_start_again(tmp_path, ports):
    with up(tmp_path, "--nodes", "3", port=ports) as command:
        run("topics", "--bootstrap-server", command.servers, "--create", "--topic", "orders")
        nodes = list(command.nodes.values())
        assert len(nodes) == 3
        command.end(signal.SIGKILL)
        assert all(map(ended, nodes))
    with up(tmp_path, "--nodes", "3", port=ports) as again:
        assert "(3 nodes, " in again.ready
        listed = run("topics", "--bootstrap-server", again.servers, "--list")
        assert listed.stdout == "orders\n"
        assert again.end() == (0, "")
    for number in (1, 2, 3):
        said = (tmp_path / f"node-{number}.log").read_text().splitlines()
        assert "stopped cleanly" in said[-1]


def test_of_three_nodes_one_dies_and_the_others_go_on(tmp_path, ports):
    with up(tmp_path, "--nodes", "3", port=ports) as command:
        node = next(iter(command.nodes.values()))
        os.kill(node, signal.SIGKILL)
        assert command.process.stdout is not None
        line = command.process.stdout.readline()
        assert line.startswith(f"node 1 (process {node}) ended with SIGKILL; see ")
        server = ("--bootstrap-server", f"127.0.0.1:{ports + 2}")
        created = run("topics", *server, "--create", "--topic", "orders")
        assert created.stdout == "Created topic orders.\n"
        assert command.end() == (0, "")


def test_the_last_node_of_three_waits_for_nobody_to_take_over(tmp_path, ports):
    with up(tmp_path, "--nodes", "3", port=ports) as command:
        assert command.process.stdout is not None
        for node in list(command.nodes.values())[:2]:
            os.kill(node, signal.SIGKILL)
            assert " ended with SIGKILL" in command.process.stdout.readline()
        assert command.end() == (0, "")
    said = (tmp_path / "node-3.log").read_text().splitlines()
    assert any("it does not wait for others" in line for line in said)
    assert "stopped cleanly" in said[-1]


def test_a_dead_node_is_told_and_not_restarted(tmp_path):
    with up(tmp_path) as command:
        node = command.node
        os.kill(node, signal.SIGKILL)
        code, said = command.wait()
    assert code == 1
    assert f"node 1 (process {node}) ended with SIGKILL; see {tmp_path / 'node-1.log'}" in said


def test_configs_reach_the_node(tmp_path):
    with up(tmp_path, "--config", "num.partitions=5", "--config", "log.retention.ms=7") as command:
        server = ("--bootstrap-server", command.servers)
        run("topics", *server, "--create", "--topic", "orders")
        described = run("topics", *server, "--describe", "--topic", "orders").stdout
        assert "PartitionCount: 5" in described
        assert "retention.ms=7" in described


def test_a_consumer_reads_from_the_follower_in_its_rack(tmp_path, ports):
    arguments = ("--nodes", "3", "--racks", "north,south,east")
    with up(tmp_path, *arguments, port=ports) as command:
        server = ("--bootstrap-server", command.servers)
        run("topics", *server, "--create", "--topic", "t", "--replica-assignment", "1:2:3")
        produced = run("produce", *server, "--topic", "t", stdin="a\nb\n")
        assert produced.returncode == 0, produced.stderr
        assert read_from(command.servers, "south") == 2
        assert read_from(command.servers, "east") == 3
        assert read_from(command.servers, "north") == 1
        assert read_from(command.servers, "elsewhere") == 1


def read_from(servers: str, rack: str) -> int:
    """The node that a consumer in that rack fetches from, after it has got two records."""
    reports: list[dict[str, Any]] = []
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "client.rack": rack,
            "enable.auto.commit": False,
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: reports.append(json.loads(text)),
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    records = consumer.consume(2, SECONDS_MAX)
    assert [record.value() for record in records] == [b"a", b"b"]
    reports.clear()
    while len(reports) < 2:
        consumer.poll(0.1)
    consumer.close()
    broker: int = reports[-1]["topics"]["t"]["partitions"]["0"]["broker"]
    return broker


def test_racks_are_as_many_as_nodes_or_fewer(tmp_path):
    line = refused("up", "--data-dir", str(tmp_path), "--nodes", "2", "--racks", "a,b,c")
    assert "--racks names 1 to 2 racks" in line


def refused(*arguments: str) -> str:
    answer = run(*arguments)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert answer.stdout == ""
    return line


def test_a_directory_of_another_number_of_nodes_is_refused(tmp_path):
    (tmp_path / "cluster.properties").write_text("nodes=3\n")
    line = refused("up", "--port", str(free_ports(2)[0]), "--data-dir", str(tmp_path))
    assert "holds a cluster of 3 nodes: start it with --nodes 3" in line


def test_a_directory_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    line = refused("up", "--port", str(free_ports(2)[0]), "--data-dir", str(tmp_path))
    assert "is not empty, and `tidelog up` did not make it" in line
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("is_same_port", [True, False])
def test_a_directory_in_use_is_one_line_that_says_what_to_do(tmp_path, is_same_port):
    with up(tmp_path) as command:
        log = (tmp_path / "node-1.log").read_text()
        port = command.port if is_same_port else free_ports(2)[0]
        line = refused("up", "--port", str(port), "--data-dir", str(tmp_path))
        assert line == (
            f"Error: {tmp_path} is in use by another process: stop that one first, or choose"
            " another --data-dir"
        )
        assert (tmp_path / "node-1.log").read_text() == log, "which is the other's"
        assert command.end() == (0, "")


def test_a_directory_that_cannot_be_locked_is_one_line(tmp_path):
    (tmp_path / "cluster.properties").write_text("nodes=1\n")
    (tmp_path / "node-1" / ".lock").mkdir(parents=True)
    line = refused("up", "--port", str(free_ports(2)[0]), "--data-dir", str(tmp_path))
    assert line == f"Error: {tmp_path / 'node-1'}: Is a directory"


def test_a_node_that_does_not_start_is_one_line_with_its_own_words(tmp_path):
    port = free_ports(2)[0]
    with up(tmp_path, port=port) as command:
        assert command.end() == (0, "")
    (tmp_path / "node-1" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    line = refused("up", "--port", str(port), "--data-dir", str(tmp_path))
    assert line.startswith("Error: no node started: ")
    assert "tidelog.server" not in line, "time and level are for the log"
    assert line.endswith(f" (see {tmp_path / 'node-1.log'})")


@pytest.mark.parametrize("distance", [0, 1])
def test_a_port_in_use_is_named(tmp_path, distance):
    port = free_ports(2)[0]
    with socket.create_server(("127.0.0.1", port + distance)):
        line = refused("up", "--port", str(port), "--data-dir", str(tmp_path))
    said = f"port {port + distance}: address already in use; choose others with --port"
    assert line == f"Error: {said}"
    assert list(tmp_path.iterdir()) == [], "another number of nodes may be the next"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("num.partitions=none", "num.partitions"),
        ("no.such.config=1", "no.such.config"),
        ("node.id=7", "`tidelog up` sets it itself"),
    ],
)
def test_a_bad_config_is_one_line(tmp_path, config, said):
    assert said in refused("up", "--data-dir", str(tmp_path / "data"), "--config", config)
    assert not (tmp_path / "data").exists()


def test_a_config_without_meaning_is_told(tmp_path):
    port = free_ports(2)[0]
    with socket.create_server(("127.0.0.1", port)):
        answer = run(
            "up", "--port", str(port), "--data-dir", str(tmp_path), "--config", "num.io.threads=8"
        )
    warning, error = answer.stderr.splitlines()
    assert warning == "warning: num.io.threads has no meaning here and is ignored"
    assert f"port {port}" in error


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    where = tmp_path / "file" / "data"
    line = refused("up", "--port", str(free_ports(2)[0]), "--data-dir", str(where))
    assert line == f"Error: {where}: Not a directory"


def test_ports_must_fit(tmp_path):
    assert "no room for 2 ports" in refused("up", "--port", "65535", "--data-dir", str(tmp_path))


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    port = free_ports(2)[0]
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},\\\n  CONTROLLER://127.0.0.1:{port + 1}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{port + 1}\n"
        f"log.dirs={tmp_path / 'logs'}\n"
    )
    return path


def test_start_runs_the_node_of_a_file(properties):
    port = properties.read_text().split("127.0.0.1:")[1].split(",")[0]
    process = subprocess.Popen(
        [SCRIPT, "start", str(properties), "--override", "num.partitions=4"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=with_parent(),
    )
    try:
        assert process.stderr is not None
        while " serves " not in (line := process.stderr.readline()):
            assert line, "it ended before it served"
        server = ("--bootstrap-server", f"127.0.0.1:{port}")
        assert run("topics", *server, "--create", "--topic", "a").stdout == "Created topic a.\n"
        assert "PartitionCount: 4" in run("topics", *server, "--describe", "--topic", "a").stdout
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert "stopped cleanly" in rest


def test_start_on_a_directory_in_use_is_one_line_that_says_what_to_do(tmp_path, properties):
    with up(tmp_path / "used") as command:
        directory = tmp_path / "used" / "node-1"
        line = refused("start", str(properties), "--override", f"log.dirs={directory}")
        assert line.endswith(f"{directory} is in use by another process; stop that one first")
        assert command.end() == (0, "")


def test_start_names_the_file_of_a_bad_config(properties):
    properties.write_text("num.partitions=zero\n" + properties.read_text())
    line = refused("start", str(properties))
    assert line.startswith(f"Error: {properties}: ")
    assert "num.partitions" in line


def test_start_wants_a_file():
    answer = run("start", "no-such-file.properties")
    assert answer.returncode == 2
    assert "does not exist" in answer.stderr
