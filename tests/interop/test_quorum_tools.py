"""A quorum that grows and shrinks: by Apache Kafka's tool and by ours, asked at brokers and at
controllers, on nodes of ours."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.apache import CLUSTER_ID, run_tool
from tests.interop.suite import eventually
from tests.interop.tidelog_node import TidelogNode
from tidelog.testing.ports import Ports

pytestmark = pytest.mark.interop

SCRIPT = str(Path(sys.executable).with_name("tidelog"))
QUORUM = "MetadataQuorumCommand"


def ours(*arguments: str) -> str:
    """What a command of ours prints."""
    command = [SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Member(TidelogNode):
    """Of a quorum whose voters are in its log."""

    def format(self) -> None:
        del self.properties["controller.quorum.voters"]
        is_first = self.properties["node.id"] == "1"
        how = "--standalone" if is_first else "--no-initial-controllers"
        ours("format", "--cluster-id", CLUSTER_ID, how, self.write_config())


class Quorum(NamedTuple):
    """A node that is a broker too, and a controller that runs and does not vote yet."""

    first: Member
    second: Member
    broker: str
    controllers: str

    @property
    def properties(self) -> str:
        """The second one's."""
        return self.second.write_config()

    def voters(self) -> list[int]:
        """As Apache's tool tells."""
        status = run_tool(QUORUM, "--bootstrap-server", self.broker, "describe", "--status")
        (voters,) = re.findall("CurrentVoters: +(.*)", status)
        return sorted(map(int, re.findall(r'"id": (\d+)', voters)))

    def observers(self) -> dict[str, str]:
        """Their directories by id, as it tells."""
        table = run_tool(QUORUM, "--bootstrap-server", self.broker, "describe", "--replication")
        return dict(re.findall(r"^(\d+)\s+(\S{22})\s.*\sObserver\s", table, re.MULTILINE))


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    ports = Ports(3)
    broker, *controllers = (f"127.0.0.1:{port}" for port in ports.numbers)
    bootstrap = {"controller.quorum.bootstrap.servers": ",".join(controllers)}
    listeners = f"PLAINTEXT://{broker},CONTROLLER://{controllers[0]}"
    nodes = [
        Member(tmp_path / "1", properties={"listeners": listeners, **bootstrap}),
        Member(
            tmp_path / "2",
            properties={
                "process.roles": "controller",
                "node.id": "2",
                "listeners": f"CONTROLLER://{controllers[1]}",
                **bootstrap,
            },
        ),
    ]
    nodes[0].bootstrap_servers = broker
    try:
        nodes[0].start()
        nodes[1].format()
        nodes[1].launch()
        quorum = Quorum(nodes[0], nodes[1], broker, ",".join(controllers))
        eventually(lambda: "2" in quorum.observers())
        yield quorum
    finally:
        for node in nodes:
            node.kill()
        ports.release()


def test_a_controller_is_added_and_removed_by_either_tool(quorum: Quorum) -> None:
    at_broker = ("--bootstrap-server", quorum.broker)
    at_controllers = ("--bootstrap-controller", quorum.controllers)
    config = ("--command-config", quorum.properties)

    assert quorum.voters() == [1]
    second = ("--controller-id", "2", "--controller-directory-id", quorum.observers()["2"])
    for add, remove in (
        (
            lambda: run_tool(QUORUM, *at_controllers, *config, "add-controller"),
            lambda: ours("quorum", *at_broker, "remove-controller", *second),
        ),
        (
            lambda: ours("quorum", *at_controllers, *config, "add-controller"),
            lambda: run_tool(QUORUM, *at_controllers, "remove-controller", *second),
        ),
        (
            lambda: run_tool(QUORUM, *at_broker, *config, "add-controller"),
            lambda: ours("quorum", *at_controllers, "remove-controller", *second),
        ),
    ):
        added = add()
        assert re.match(f"Added controller 2 with directory id {second[3]} and endpoints: ", added)
        eventually(lambda: quorum.voters() == [1, 2])
        # Apache's tool has a space too many, which nobody can mean to read.
        removed = " ".join(remove().split())
        assert removed == f"Removed KRaft controller 2 with directory id {second[3]}"
        eventually(lambda: quorum.voters() == [1])


def test_controllers_tell_the_same_to_both_tools(quorum: Quorum) -> None:
    at_controllers = ("--bootstrap-controller", quorum.controllers)
    for arguments in (("cluster-id",), ("list-endpoints",)):
        theirs = run_tool("ClusterTool", *arguments, *at_controllers)
        assert ours("cluster", *arguments, *at_controllers) == theirs

    def without_numbers(text: str) -> str:
        return re.sub(r"(HighWatermark|MaxFollowerLag\w*): +-?\d+", r"\1", text)

    status = ("describe", "--status")
    theirs = run_tool(QUORUM, *at_controllers, *status)
    assert without_numbers(ours("quorum", *at_controllers, *status)) == without_numbers(theirs)
