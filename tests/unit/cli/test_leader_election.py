"""`tidelog leader-election`: Kafka's lines, and a topic without a partition is all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.cluster import CommandCluster, Run, asked, runner
from tests.unit.client.memory import MemoryBroker

from tidelog.wire.api import ApiKey
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

NOT_NEEDED, NOT_AVAILABLE, UNKNOWN = 84, 80, 3


@pytest.fixture
def cluster() -> CommandCluster:
    found = CommandCluster()
    found.leaders = {"orders": {0: (1, 0), 1: (2, 0), 2: (3, 0)}, "returns": {0: (2, 0)}}
    found.outcomes = {("orders", 0): 0, ("orders", 1): NOT_NEEDED, ("orders", 2): NOT_AVAILABLE}

    def elect(broker: MemoryBroker, request: Any) -> ElectLeadersResponse:
        wanted = {
            (topic.topic, index)
            for topic in request.topic_partitions or ()
            for index in topic.partitions
        }
        every = request.topic_partitions is None
        keys = sorted(found.outcomes if every else wanted)
        return ElectLeadersResponse(
            replica_election_results=tuple(
                ReplicaElectionResult(
                    topic=topic,
                    partition_result=(
                        PartitionResult(
                            partition_id=index,
                            error_code=found.outcomes.get((topic, index), UNKNOWN),
                            error_message=None,
                        ),
                    ),
                )
                for topic, index in keys
            )
        )

    found.handle(ApiKey.ELECT_LEADERS, elect)
    return found


@pytest.fixture
def run(cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(cluster, monkeypatch, "leader_election")


def preferred(run: Run, *arguments: str) -> Any:
    return run("--election-type", "preferred", *arguments)


def wanted(cluster: CommandCluster) -> dict[str, tuple[int, ...]]:
    listed = asked(cluster, ApiKey.ELECT_LEADERS).topic_partitions
    return {topic.topic: topic.partitions for topic in listed}


def test_a_topic_means_all_its_partitions(cluster, run):
    answer = preferred(run, "--topic", "orders")
    assert wanted(cluster) == {"orders": (0, 1, 2)}
    assert answer.exit_code == 1
    assert answer.output.splitlines() == [
        "Successfully completed leader election (PREFERRED) for partitions orders-0",
        "Valid replica already elected for partitions orders-1",
        "Error completing leader election (PREFERRED) for partition: orders-2:"
        " org.apache.kafka.common.errors.PreferredLeaderNotAvailableException:"
        " PREFERRED_LEADER_NOT_AVAILABLE",
        "Error: 1 replica(s) could not be elected",
    ]


def test_one_partition(cluster, run):
    answer = run("--election-type", "UNCLEAN", "--topic", "orders", "--partition", "0")
    assert wanted(cluster) == {"orders": (0,)}
    assert asked(cluster, ApiKey.ELECT_LEADERS).election_type == 1
    assert (answer.exit_code, "(UNCLEAN) for partitions orders-0" in answer.output) == (0, True)


def test_all_of_the_cluster(cluster, run):
    del cluster.outcomes["orders", 2]
    assert preferred(run, "--all-topic-partitions").exit_code == 0
    assert asked(cluster, ApiKey.ELECT_LEADERS).topic_partitions is None


def test_the_partitions_of_a_file(cluster, run, tmp_path):
    file = tmp_path / "partitions.json"
    partitions = [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}]
    file.write_text(json.dumps({"partitions": partitions}))
    assert preferred(run, "--path-to-json-file", str(file)).exit_code == 0
    assert wanted(cluster) == {"orders": (0, 1)}


def test_json_tells_the_same(run):
    answer = preferred(run, "--topic", "orders", "--json")
    *lines, last = answer.output.splitlines()
    content = json.loads("\n".join(lines))
    assert content["elected"] == [{"topic": "orders", "partition": 0}]
    assert content["already_elected"] == [{"topic": "orders", "partition": 1}]
    (failed,) = content["failed"]
    assert (failed["partition"], failed["error"]) == (2, "PREFERRED_LEADER_NOT_AVAILABLE")
    assert (answer.exit_code, last) == (1, "Error: 1 replica(s) could not be elected")


def test_a_missing_topic_is_one_line(run):
    answer = preferred(run, "--topic", "nope")
    (line,) = answer.output.splitlines()
    assert line.startswith("Error: Topic 'nope' does not exist")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "want an object with a list 'partitions'"),
        ('{"version": 2, "partitions": []}', "version 2, want 1"),
        ('{"partitions": [{"topic": "t"}]}', "want 'partition' as int"),
        ('{"partitions": [{"topic": "t", "partition": true}]}', "want 'partition' as int"),
        ('{"partitions": [7]}', "want 'topic' as str"),
        (
            '{"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 0}]}',
            "duplicate topic partitions: t-0",
        ),
        pytest.param("[" * 100_000, "is nested too deeply", id="deep"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(run, tmp_path, content, said):
    file = tmp_path / "partitions.json"
    file.write_text(content)
    answer = preferred(run, "--path-to-json-file", str(file))
    (line,) = answer.output.splitlines()
    assert (answer.exit_code, str(file) in line, said in line) == (1, True, True), line


@pytest.mark.parametrize("by_file", [False, True])
def test_a_partition_that_the_protocol_has_no_room_for_is_one_line(run, tmp_path, by_file):
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "orders", "partition": 99999999999}]}')
    named = ("--topic", "orders", "--partition", "99999999999")
    answer = preferred(run, *(("--path-to-json-file", str(file)) if by_file else named))
    said = "99999999999 does not fit partitions, which has 32 bits"
    assert (answer.exit_code, answer.output) == (1, f"Error: ElectLeaders: {said}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "want one of --topic NAME"),
        (["--all-topic-partitions", "--topic", "orders"], "want one of --topic NAME"),
        (["--all-topic-partitions", "--partition", "0"], "--partition goes with --topic"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(run, arguments, said):
    answer = preferred(run, *arguments)
    assert (answer.exit_code, said in answer.output) == (2, True)
