"""A quorum that begins with one controller and gets others (KIP-853), by Apache's tool and by ours:
processes of three nodes, of which any may die in the end."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.apache import CLUSTER_ID, run_tool
from tests.interop.process import NodeProcess
from tests.interop.suite import eventually
from tests.interop.tidelog_node import TidelogNode
from tidelog.testing.ports import free_ports

pytestmark = pytest.mark.interop

SCRIPT = str(Path(sys.executable).with_name("tidelog"))
QUORUM = "MetadataQuorumCommand"


def ours(*arguments: str) -> str:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Member(TidelogNode):
    """Both roles, of a quorum whose voters are in its log."""

    def __init__(self, number: int, directory: Path, ports: dict[int, tuple[int, int]]) -> None:
        port, controller_port = ports[number]
        servers = ",".join(f"127.0.0.1:{one[1]}" for one in ports.values())
        properties = {
            "node.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.quorum.bootstrap.servers": servers,
        }
        super().__init__(directory / str(number), properties=properties)
        del self.properties["controller.quorum.voters"]
        self.number = number
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.how = "--standalone" if number == 1 else "--no-initial-controllers"

    def format(self) -> None:
        ours("format", "-t", CLUSTER_ID, self.how, self.write_config())

    @property
    def directory_id(self) -> str:
        text = (self.log_dir / "meta.properties").read_text()
        found = re.search(r"directory.id=(\S+)", text)
        assert found is not None
        return found[1]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[int, Member]]:
    found = free_ports(6)
    ports = {number: (found[2 * number - 2], found[2 * number - 1]) for number in (1, 2, 3)}
    members = {number: Member(number, tmp_path, ports) for number in (1, 2, 3)}
    try:
        for node in members.values():
            node.start()
        yield members
    finally:
        for node in members.values():
            node.kill()


def voters(node: NodeProcess) -> dict[str, str]:
    """The directory of each, as Apache's tool is told."""
    table = run_tool(
        QUORUM, "--bootstrap-server", node.bootstrap_servers, "describe", "--replication"
    )
    rows = [[cell.strip() for cell in line.split("\t")] for line in table.splitlines()[1:]]
    return {row[0]: row[1] for row in rows if row[6] in ("Leader", "Follower")}


def leader(node: NodeProcess) -> int:
    status = ours("quorum", "--bootstrap-server", node.bootstrap_servers, "describe", "--status")
    found = re.search(r"LeaderId: +(-?\d+)", status)
    assert found is not None
    return int(found[1])


def test_controllers_come_and_go(nodes: dict[int, Member]) -> None:
    first, second, third = nodes.values()
    server = ("--bootstrap-server", first.bootstrap_servers)
    assert voters(first) == {"1": first.directory_id}
    config = ("--command-config", second.write_config())
    said = run_tool(QUORUM, *config, *server, "add-controller")
    assert f"Added controller 2 with directory id {second.directory_id}" in said
    ours("quorum", "add-controller", *server, "--command-config", third.write_config())
    everybody = {str(number): node.directory_id for number, node in nodes.items()}
    assert voters(second) == everybody
    # Any one of three may die, the one that began it all too.
    first.kill()
    eventually(lambda: leader(second) in (2, 3))
    ours("topics", "--create", "--topic", "t", "--bootstrap-server", second.bootstrap_servers)
    # It comes back with another disk: that is another voter, and the old one is to go.
    lost = first.directory_id
    shutil.rmtree(first.log_dir)
    first.how = "--no-initial-controllers"
    first.start()
    assert first.directory_id != lost
    assert voters(second)["1"] == lost
    gone = ("remove-controller", "--controller-id", "1", "--controller-directory-id", lost)
    said = run_tool(QUORUM, "--bootstrap-server", second.bootstrap_servers, *gone)
    assert f"KRaft controller 1 with directory id {lost}" in said
    assert sorted(voters(second)) == ["2", "3"]
    added = ("quorum", "add-controller", "--bootstrap-server", second.bootstrap_servers)
    ours(*added, "--command-config", first.write_config())
    assert voters(third) == everybody | {"1": first.directory_id}
