"""`tidelog quorum` and `tidelog cluster`: Kafka's lines and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.cli.cluster import CommandCluster, Run, asked, runner
from tests.unit.client.memory import MemoryBroker

from tidelog.cli.main import tidelog
from tidelog.types import ZERO_UUID, Uuid, format_uuid
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.add_raft_voter import AddRaftVoterResponse
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from tidelog.wire.messages.unregister_broker import UnregisterBrokerResponse

DIRECTORY = Uuid(b"directory of two")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def state(node_id: int, end_offset: int, caught_up: int, directory: Uuid = ZERO_UUID) -> Any:
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=directory,
        log_end_offset=end_offset,
        last_fetch_timestamp=caught_up,
        last_caught_up_timestamp=caught_up,
    )


@pytest.fixture
def cluster() -> CommandCluster:
    """Three voters, of which 3 lags, and an observer; 1 leads."""
    found = CommandCluster()
    found.answers = []
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=0,
        leader_id=1,
        leader_epoch=7,
        high_watermark=100,
        current_voters=(state(2, 100, 990, DIRECTORY), state(1, 100, 1000), state(3, 90, 500)),
        observers=(state(4, 99, -1),),
    )
    topic = DescribeQuorumResponseTopicData(topic_name="metadata", partitions=(partition,))
    listener = Listener(name="CONTROLLER", host="::1", port=9093)
    nodes = (Node(node_id=1, listeners=(listener,)),)
    quorum = DescribeQuorumResponse(error_code=0, topics=(topic,), nodes=nodes)

    def describe(broker: MemoryBroker, request: Any) -> DescribeQuorumResponse:
        return found.answers.pop(0) if found.answers else quorum

    def unregister(broker: MemoryBroker, request: Any) -> UnregisterBrokerResponse:
        known = request.broker_id == 3
        return UnregisterBrokerResponse(
            error_code=0 if known else 102, error_message=None if known else "not registered"
        )

    found.handle(ApiKey.DESCRIBE_QUORUM, describe)
    found.handle(ApiKey.UNREGISTER_BROKER, unregister)
    found.handle(
        ApiKey.ADD_RAFT_VOTER,
        lambda broker, request: AddRaftVoterResponse(error_code=0, error_message=None),
    )
    found.handle(
        ApiKey.REMOVE_RAFT_VOTER,
        lambda broker, request: RemoveRaftVoterResponse(error_code=0, error_message=None),
    )
    return found


@pytest.fixture
def quorum(cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(cluster, monkeypatch, "quorum")


@pytest.fixture
def run(cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(cluster, monkeypatch, "cluster")


def test_the_status_is_kafkas_eight_lines(quorum):
    answer = quorum("describe", "--status")
    assert answer.output.splitlines() == [
        "ClusterId:              memory",
        "LeaderId:               1",
        "LeaderEpoch:            7",
        "HighWatermark:          100",
        "MaxFollowerLag:         10",
        "MaxFollowerLagTimeMs:   500",
        f'CurrentVoters:          [{{"id": 2, "directoryId": "{format_uuid(DIRECTORY)}"}},'
        ' {"id": 1, "endpoints": ["CONTROLLER://[::1]:9093"]}, {"id": 3}]',
        'CurrentObservers:       [{"id": 4}]',
    ]


def test_replication_is_a_table_with_the_leader_first(quorum):
    title, *rows = quorum("describe", "--replication").output.splitlines()
    assert [cell.strip() for cell in title.split("\t")][:4] == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
    ]
    cells = [[cell.strip() for cell in row.split("\t")] for row in rows]
    assert [(row[0], row[3], row[6]) for row in cells] == [
        ("1", "0", "Leader"),
        ("2", "0", "Follower"),
        ("3", "10", "Follower"),
        ("4", "1", "Observer"),
    ]
    assert {len(row) for row in (title, *rows)} == {len(title)}
    shown = quorum("describe", "--replication", "--human-readable").output
    assert shown.count(" ms ago") == 6, "the observer was never heard of"


def test_json_tells_all(quorum):
    content = json.loads(quorum("describe", "--json").output)
    assert (content["leader_id"], content["high_watermark"]) == (1, 100)
    assert [(one["id"], one["role"], one["lag"]) for one in content["nodes"]][2:] == [
        (3, "follower", 10),
        (4, "observer", 1),
    ]


def test_a_controller_that_has_just_lost_its_office_is_not_believed(cluster, quorum):
    cluster.answers = [DescribeQuorumResponse(error_code=41, topics=())]
    assert "LeaderId:               1" in quorum("describe", "--status").output
    assert cluster.answers == []


def test_the_address_may_stand_before_the_subcommand(quorum):
    assert quorum("--bootstrap-server", "h:1", "describe", "--status").exit_code == 0
    assert quorum("--bootstrap-server=h:1", "describe", "--status").exit_code == 0
    answer = quorum("describe")
    assert (answer.exit_code, "--status or --replication" in answer.output) == (2, True)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    file = tmp_path / "controller.properties"
    file.write_text(
        "process.roles=controller\nnode.id=4\ncontroller.listener.names=CONTROLLER\n"
        "listeners=CONTROLLER://127.0.0.1:9094\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:9093\nlog.dirs={tmp_path}/data\n"
    )
    return file


def test_a_controller_is_added_by_its_file_and_directory(cluster, quorum, properties):
    wish = ("add-controller", "--command-config", str(properties))
    missing = quorum(*wish)
    assert (missing.exit_code, "is not formatted: use `tidelog format" in missing.output) == (1, 1)
    arguments = ["format", "--cluster-id", CLUSTER_ID, "-N", str(properties)]
    assert CliRunner().invoke(tidelog, arguments).exit_code == 0
    assert quorum(*wish, "--dry-run").output.startswith("DRY RUN of adding controller 4 with ")
    answer = quorum(*wish)
    assert answer.output.endswith(" and endpoints: CONTROLLER://127.0.0.1:9094\n")
    request = asked(cluster, ApiKey.ADD_RAFT_VOTER)
    assert (request.voter_id, request.cluster_id) == (4, CLUSTER_ID)
    assert format_uuid(request.voter_directory_id) in answer.output
    assert [(one.name, one.port) for one in request.listeners] == [("CONTROLLER", 9094)]


def test_a_broker_is_no_controller(quorum, properties):
    text = properties.read_text().replace("process.roles=controller", "process.roles=broker")
    properties.write_text(text.replace("CONTROLLER://", "PLAINTEXT://"))
    answer = quorum("add-controller", "--command-config", str(properties))
    assert "process.roles lacks controller" in answer.output


def test_a_controller_is_removed_by_its_directory(cluster, quorum):
    directory = format_uuid(DIRECTORY)
    wish = ("remove-controller", "--controller-id", "2", "--controller-directory-id", directory)
    line = f"KRaft controller 2 with directory id {directory}\n"
    assert quorum(*wish, "--dry-run").output == f"DRY RUN of removing {line}"
    assert quorum(*wish).output == f"Removed {line}"
    request = asked(cluster, ApiKey.REMOVE_RAFT_VOTER)
    assert (request.voter_id, request.voter_directory_id) == (2, DIRECTORY)
    bad = quorum("remove-controller", "-i", "2", "-d", "short")
    assert (bad.exit_code, "is not a uuid" in bad.output) == (2, True)


def test_the_clusters_id(run):
    assert run("cluster-id").output == "Cluster ID: memory\n"
    assert json.loads(run("cluster-id", "--json").output) == {"cluster_id": "memory"}


def test_endpoints_are_listed_fenced_ones_if_asked_for(cluster, run):
    cluster.fenced, cluster.racks = {3}, {1: "a-rack-with-a-name"}
    lines = run("list-endpoints").output.splitlines()
    assert [line.split() for line in lines] == [
        ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"],
        ["1", "broker", "1", "a-rack-with-a-name", "unfenced", "broker"],
        ["2", "broker", "2", "null", "unfenced", "broker"],
    ]
    assert len({len(line) for line in lines}) == 1
    listed = json.loads(run("list-endpoints", "--include-fenced-brokers", "--json").output)
    assert [(one["id"], one["state"]) for one in listed][2] == (3, "fenced")


def test_controllers_are_asked_where_they_are_named(cluster, quorum, run):
    cluster.become_controllers()
    to = ("--bootstrap-controller", "broker:1")
    assert "LeaderId:               1" in quorum(*to, "describe", "--status").output
    assert cluster.brokers[2].asked(ApiKey.DESCRIBE_QUORUM), "the active one"
    directory = format_uuid(DIRECTORY)
    quorum("remove-controller", *to, "-i", "2", "-d", directory)
    assert asked(cluster, ApiKey.REMOVE_RAFT_VOTER).voter_id == 2
    assert run("cluster-id", *to).output == "Cluster ID: memory\n"
    lines = run("list-endpoints", *to).output.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["ID", "HOST", "PORT", "RACK", "ENDPOINT_TYPE"],
        ["1", "broker", "1", "null", "controller"],
    ]
    listed = json.loads(run("list-endpoints", "--json", *to).output)
    assert (listed[0]["endpoint_type"], "state" in listed[0]) == ("controller", False)


def test_a_controller_is_added_by_way_of_controllers(cluster, quorum, properties):
    cluster.become_controllers()
    arguments = ["format", "--cluster-id", CLUSTER_ID, "-N", str(properties)]
    assert CliRunner().invoke(tidelog, arguments).exit_code == 0
    wish = ("add-controller", "--command-config", str(properties))
    assert quorum("--bootstrap-controller", "broker:1", *wish).output.startswith("Added ")
    assert asked(cluster, ApiKey.ADD_RAFT_VOTER).voter_id == 4


def test_a_broker_that_is_named_as_a_controller_says_so(run):
    answer = run("cluster-id", "--bootstrap-controller", "broker:1")
    assert (answer.exit_code, "of another type" in answer.output) == (1, True)


def test_controllers_that_are_gone_are_one_line(cluster, quorum):
    cluster.alive.clear()
    answer = quorum("--bootstrap-controller", "broker:1", "describe", "--status")
    (line,) = answer.output.splitlines()
    assert line.startswith("Error: cannot reach a controller at ")
    assert line.endswith("name another with --bootstrap-controller")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cluster-id", "--bootstrap-server", "h:1"], "not both"),
        (["list-endpoints", "--include-fenced-brokers"], "goes with --bootstrap-server"),
    ],
)
def test_what_does_not_go_with_controllers_is_exit_code_2(run, arguments, said):
    answer = run(*arguments, "--bootstrap-controller", "h:2")
    assert (answer.exit_code, said in answer.output) == (2, True)


def test_a_broker_is_forgotten(run):
    assert run("unregister", "--id", "3").output == "Broker 3 is no longer registered.\n"
    answer = run("unregister", "--id", "9")
    assert (answer.exit_code, answer.output) == (1, "Error: broker 9: not registered\n")


def test_an_id_that_the_protocol_has_no_room_for_is_one_line(quorum, run):
    wish = ("remove-controller", "-i", "99999999999", "-d", format_uuid(DIRECTORY))
    for answer, field in (
        (quorum(*wish), "voter_id"),
        (run("unregister", "--id", "99999999999"), "broker_id"),
        (run("unregister", "--id", "-99999999999"), "broker_id"),
    ):
        (line,) = answer.output.splitlines()
        assert answer.exit_code == 1
        assert line.endswith(f"99999999999 does not fit {field}, which has 32 bits")
