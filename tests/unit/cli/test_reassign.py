"""`tidelog reassign`: proposes, begins, looks and takes back, in Kafka's lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.cluster import CommandCluster, Run, asked, runner
from tests.unit.client.memory import MemoryBroker

from tidelog.wire.api import ApiKey
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

ALTER = ApiKey.ALTER_PARTITION_REASSIGNMENTS
CONFIGURE = ApiKey.INCREMENTAL_ALTER_CONFIGS
BROKER = 4
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
NO_THROTTLE = {
    **dict.fromkeys(
        ("1", "2", "3"),
        dict.fromkeys(
            (LEADER_RATE, FOLLOWER_RATE, "replica.alter.log.dirs.io.max.bytes.per.second")
        ),
    ),
    "orders": dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)),
}
NO_MOVES = "None of the specified partition moves are active."
CLEARED = [
    "Clearing broker-level throttles on brokers 1,2,3",
    "Clearing topic-level throttles on topic orders",
]

CONTROLLER = ("--bootstrap-controller", "broker:1")
MOVES = ("--reassignment-json-file", __file__)


@pytest.fixture
def cluster() -> CommandCluster:
    """Topics of one replica each, on broker 1."""
    found = CommandCluster()
    found.leaders = {"orders": {0: (1, 0), 1: (1, 0)}, "returns": {0: (1, 0)}}
    found.refused = set()

    def alter(broker: MemoryBroker, request: Any) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            error_code=0,
            error_message=None,
            responses=tuple(
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ReassignablePartitionResponse(
                            partition_index=one.partition_index,
                            error_code=39 if one.partition_index in found.refused else 0,
                            error_message="no" if one.partition_index in found.refused else None,
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def configure(broker: MemoryBroker, request: Any) -> IncrementalAlterConfigsResponse:
        for one in request.resources:
            if one.resource_type == BROKER:
                assert found.brokers[int(one.resource_name)] is broker, "it changes its own alone"
        return all_is_configured(request)

    found.handle(ALTER, alter)
    found.handle(CONFIGURE, configure)
    return found


def all_is_configured(request: Any) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=0,
                error_message=None,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one in request.resources
        )
    )


def configured(cluster: CommandCluster) -> dict[str, dict[str, str | None]]:
    """What a command has set, or deleted (None), of brokers by id and of topics by name."""
    return {
        one.resource_name: {change.name: change.value for change in one.configs}
        for broker in cluster.brokers.values()
        for request in broker.asked(CONFIGURE)
        for one in request.resources
    }


@pytest.fixture
def run(cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(cluster, monkeypatch, "reassign")


@pytest.fixture
def moves(tmp_path: Path) -> str:
    return written(tmp_path, placement(0, 2, 1), placement(1, 3))


def placement(index: int, *replicas: int, topic: str = "orders") -> dict[str, Any]:
    return {"topic": topic, "partition": index, "replicas": list(replicas)}


def written(folder: Path, *partitions: dict[str, Any]) -> str:
    file = folder / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(file)


def sent(cluster: CommandCluster) -> dict[tuple[str, int], tuple[int, ...] | None]:
    request = asked(cluster, ALTER)
    return {(t.name, p.partition_index): p.replicas for t in request.topics for p in t.partitions}


def refused(answer: Any) -> str:
    assert answer.exit_code == 1
    (line,) = answer.output.splitlines()
    return line


def test_moves_begin_and_the_way_back_is_shown(cluster, run, moves):
    answer = run("--execute", "--reassignment-json-file", moves)
    assert answer.exit_code == 0
    assert sent(cluster) == {("orders", 0): (2, 1), ("orders", 1): (3,)}
    title, _, rollback, _, save, started = answer.output.splitlines()
    assert title == "Current partition replica assignment"
    assert save == "Save this to use as the --reassignment-json-file option during rollback"
    assert started == "Successfully started partition reassignments for orders-0,orders-1"
    assert json.loads(rollback) == {
        "version": 1,
        "partitions": [{**placement(index, 1), "log_dirs": ["any"]} for index in (0, 1)],
    }


def test_what_the_controller_refuses_is_said_after_what_began(cluster, run, moves):
    cluster.refused = {1}
    answer = run("--execute", "--reassignment-json-file", moves)
    assert answer.exit_code == 1
    assert answer.output.splitlines()[-2:] == [
        "Successfully started partition reassignment for orders-0",
        "Error: Error reassigning partition(s): orders-1: no",
    ]


def test_other_moves_are_left_alone_unless_asked(cluster, run, moves):
    cluster.move("returns", 0, replicas=(1, 2), adding_replicas=(2,))
    assert "existing partition assignment" in refused(
        run("--execute", "--reassignment-json-file", moves)
    )
    answer = run("--execute", "--reassignment-json-file", moves, "--additional", "--json")
    content = json.loads(answer.output)
    assert [one["partition"] for one in content["started"]] == [0, 1]
    assert len(content["rollback"]["partitions"]) == 2


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        (placement(0, 2, 2), "orders-0 contains multiple entries for 2"),
        (placement(0, 9), "Unknown broker id 9; the brokers are 1, 2, 3"),
        (placement(0), "Partition replica list cannot be empty"),
        (placement(7, 1), "Unable to find partition: orders-7"),
        (placement(0, 1, topic="nope"), "Topic 'nope' does not exist"),
        (placement(0, "a"), "want 'replicas' as broker ids"),
        ({**placement(0, 1), "log_dirs": ["a", "b"]}, "is different from size of log dirs"),
        ({**placement(0, 1), "log_dirs": None}, "want 'log_dirs' as list"),
        ({**placement(0, 1), "log_dirs": 5}, "want 'log_dirs' as list"),
        ({**placement(0, 1), "log_dirs": "any"}, "want 'log_dirs' as list"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(cluster, run, tmp_path, partition, said):
    file = written(tmp_path, partition)
    assert said in refused(run("--execute", "--reassignment-json-file", file))
    assert not any(broker.asked(ALTER) for broker in cluster.brokers.values())


@pytest.mark.parametrize("action", ["execute", "verify", "cancel", "generate"])
def test_a_file_that_is_nested_too_deeply_is_refused(run, tmp_path, action):
    file = tmp_path / "deep.json"
    file.write_text('{"partitions": ' + "[" * 100_000)
    arguments = ("--reassignment-json-file", str(file))
    if action == "generate":
        arguments = ("--topics-to-move-json-file", str(file), "--broker-list", "1")
    assert refused(run(f"--{action}", *arguments)) == f"Error: {file} is nested too deeply"


def test_a_partition_that_the_protocol_has_no_room_for_is_refused(run, tmp_path):
    file = written(tmp_path, placement(99999999999, 1))
    line = refused(run("--cancel", "--reassignment-json-file", file))
    assert "99999999999 does not fit partition_indexes, which has 32 bits" in line


def test_an_empty_file_moves_nothing(run, tmp_path):
    line = refused(run("--execute", "--reassignment-json-file", written(tmp_path)))
    assert line.endswith("Partition reassignment list cannot be empty")


def test_directories_are_the_brokers_choice(run, tmp_path):
    file = written(tmp_path, {**placement(0, 2), "log_dirs": ["/data"]})
    answer = run("--execute", "--reassignment-json-file", file)
    assert answer.exit_code == 0
    assert "warning: log_dirs other than any are ignored" in answer.output


def test_verify_tells_each_partitions_state(cluster, run, tmp_path):
    file = written(tmp_path, placement(0, 2), placement(1, 1), placement(0, 3, topic="returns"))
    cluster.move("orders", 0, replicas=(2, 1), adding_replicas=(2,), removing_replicas=(1,))
    answer = run("--verify", "--reassignment-json-file", file)
    assert answer.output.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition orders-0 is still in progress.",
        "Reassignment of partition orders-1 is completed.",
        "There is no active reassignment of partition returns-0, but replica set is 1 rather than"
        " 3.",
        "",
    ]
    content = json.loads(run("--verify", "--reassignment-json-file", file, "--json").output)
    assert [one["state"] for one in content["partitions"]] == [
        "in progress",
        "completed",
        "not there",
    ]
    assert configured(cluster) == {}, "while something moves, a throttle is needed"


def test_only_moves_that_go_on_are_taken_back(cluster, run, moves):
    cluster.move("orders", 1, replicas=(3, 1), adding_replicas=(3,), removing_replicas=(1,))
    answer = run("--cancel", "--reassignment-json-file", moves)
    assert answer.output.splitlines() == [
        "Successfully cancelled partition reassignment for: orders-1",
        NO_MOVES,
        *CLEARED,
    ]
    assert sent(cluster) == {("orders", 1): None}
    assert configured(cluster) == NO_THROTTLE


def test_nothing_to_take_back(cluster, run, moves):
    answer = run("--cancel", "--reassignment-json-file", moves)
    assert answer.output.splitlines() == [
        "None of the specified partition reassignments are active.",
        NO_MOVES,
        *CLEARED,
    ]
    answer = run("--cancel", "--reassignment-json-file", moves, "--json")
    cleared = {"brokers": [1, 2, 3], "topics": ["orders"]}
    assert json.loads(answer.output) == {"cancelled": [], "throttles_cleared": cleared}


def test_a_throttle_names_who_sends_and_who_gets(cluster, run, moves):
    """Of moves that are going on, too: a topic's list is replaced as a whole."""
    cluster.leaders["orders"][2] = (3, 0)
    cluster.move("orders", 2, replicas=(1, 3, 2), adding_replicas=(1,), removing_replicas=(2,))
    arguments = ("--execute", "--reassignment-json-file", moves, "--additional")
    answer = run(*arguments, "--throttle", "50000000")
    assert answer.exit_code == 0
    assert answer.output.splitlines()[-3:] == [
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure"
        " the throttle is removed.",
        "The inter-broker throttle limit was set to 50000000 B/s",
        "Successfully started partition reassignments for orders-0,orders-1",
    ]
    rate = {LEADER_RATE: "50000000", FOLLOWER_RATE: "50000000"}
    assert configured(cluster) == {
        "orders": {LEADER_REPLICAS: "0:1,1:1,2:2,2:3", FOLLOWER_REPLICAS: "0:2,1:3,2:1"},
        **dict.fromkeys(("1", "2", "3"), rate),
    }
    content = json.loads(run(*arguments, "--throttle", "7", "--json").output)
    assert content["throttle"] == 7
    assert configured(cluster)["3"] == {LEADER_RATE: "7", FOLLOWER_RATE: "7"}


def test_a_throttle_that_cannot_be_set_moves_nothing(cluster, run, moves):
    cluster.fenced = {3}
    answer = run("--execute", "--reassignment-json-file", moves, "--throttle", "5")
    assert answer.exit_code == 1
    assert answer.output.splitlines()[-1] == (
        "Error: not in service: broker 3; its throttle can be changed when it is back"
    )
    assert configured(cluster) == {}
    assert not any(broker.asked(ALTER) for broker in cluster.brokers.values())


def test_verify_removes_throttles_when_nothing_moves_any_more(cluster, run, tmp_path):
    file = written(tmp_path, placement(0, 1), placement(0, 1, topic="gone"))
    arguments = ("--verify", "--reassignment-json-file", file)
    assert run(*arguments, "--preserve-throttles").exit_code == 0
    cluster.move("returns", 0, replicas=(1, 2), adding_replicas=(2,))
    assert run(*arguments).exit_code == 0
    assert configured(cluster) == {}, "the other move has a throttle, too, perhaps"
    cluster.moves.clear()
    answer = run(*arguments)
    assert answer.output.splitlines()[-3:] == ["", *CLEARED]
    assert configured(cluster) == NO_THROTTLE
    content = json.loads(run(*arguments, "--json").output)
    assert content["throttles_cleared"] == {"brokers": [1, 2, 3], "topics": ["orders"]}


def test_who_is_not_there_keeps_its_throttle_and_that_is_said(cluster, run, tmp_path):
    cluster.fenced = {3}
    file = written(tmp_path, placement(0, 1), placement(1, 3))
    answer = run("--verify", "--reassignment-json-file", file)
    assert answer.exit_code == 1
    assert answer.output.splitlines()[-3:] == [
        "Clearing broker-level throttles on brokers 1,2",
        CLEARED[1],
        "Error: not in service: broker 3; its throttle can be changed when it is back",
    ]
    assert configured(cluster) == {name: it for name, it in NO_THROTTLE.items() if name != "3"}


def test_the_controller_is_told_how_long_and_what_not_to_do(cluster, run, moves):
    arguments = ("--execute", "--reassignment-json-file", moves, "--timeout", "1234")
    assert run(*arguments, "--disallow-replication-factor-change").exit_code == 0
    request = asked(cluster, ALTER)
    assert 0 < request.timeout_ms <= 1234
    assert not request.allow_replication_factor_change


def test_everything_that_goes_on_is_listed(cluster, run):
    assert run("--list").output == "No partition reassignments found.\n"
    cluster.move("orders", 1, replicas=(3, 1), adding_replicas=(3,), removing_replicas=(1,))
    assert run("--list").output.splitlines() == [
        "Current partition reassignments:",
        "orders-1: replicas: 3,1. adding: 3. removing: 1.",
    ]
    (one,) = json.loads(run("--list", "--json").output)["partitions"]
    assert one == {
        "topic": "orders", "partition": 1, "replicas": [3, 1], "adding": [3], "removing": [1]
    }  # fmt: skip


@pytest.fixture
def topics(tmp_path: Path) -> str:
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": "orders"}]}))
    return str(file)


def test_a_proposal_uses_the_brokers_that_were_named(run, topics):
    answer = run("--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
    first, current, _, second, proposed = answer.output.splitlines()
    assert first == "Current partition replica assignment"
    assert second == "Proposed partition reassignment configuration"
    assert [one["replicas"] for one in json.loads(current)["partitions"]] == [[1], [1]]
    placed = [one["replicas"] for one in json.loads(proposed)["partitions"]]
    assert sorted(placed) == [[2], [3]], "each leads one"


def test_a_proposal_can_be_executed(cluster, run, topics, tmp_path):
    answer = run("--generate", "--topics-to-move-json-file", topics, "--broker-list", "2", "--json")
    file = tmp_path / "proposed.json"
    file.write_text(answer.output)
    assert run("--execute", "--reassignment-json-file", str(file)).exit_code == 0
    assert sent(cluster) == {("orders", 0): (2,), ("orders", 1): (2,)}


def test_racks_are_all_known_or_ignored(cluster, run, topics):
    cluster.racks = {2: "a"}
    wish = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
    assert "Not all brokers have rack information" in refused(run(*wish))
    assert run(*wish, "--disable-rack-aware").exit_code == 0


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        ("1,1", "Broker list contains duplicate entries: [1]"),
        ("1,9", "Unknown broker id 9"),
        ("3", "Unknown broker id 3; the brokers are 1, 2"),
    ],
)
def test_brokers_that_cannot_be_used_are_refused(cluster, run, topics, brokers, said):
    cluster.fenced = {3}
    wish = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", brokers)
    assert said in refused(run(*wish))


def test_controllers_take_moves_back_too(cluster, run, moves):
    cluster.become_controllers()
    cluster.move("orders", 1, replicas=(3, 1), adding_replicas=(3,), removing_replicas=(1,))
    assert run("--list", *CONTROLLER).output.startswith(
        "Current partition reassignments:\norders-1"
    )
    wish = ("--cancel", "--reassignment-json-file", moves, "--preserve-throttles")
    said = f"Successfully cancelled partition reassignment for: orders-1\n{NO_MOVES}\n"
    assert run(*wish, *CONTROLLER).output == said
    assert sent(cluster) == {("orders", 1): None}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to do: --generate, --execute, --verify, --cancel, --list"),
        (["--execute"], "--execute needs --reassignment-json-file FILE"),
        (["--generate"], "--generate needs --topics-to-move-json-file FILE and --broker-list"),
        (["--list", "--additional"], "--additional goes with --execute"),
        (["--list", "--throttle", "0"], "--throttle goes with --execute"),
        (["--list", "--preserve-throttles"], "--preserve-throttles goes with --verify or --cancel"),
        (["--generate", "--timeout", "5"], "--timeout goes with --execute or --cancel"),
        (["--execute", "--throttle", "-5"], "-5 is not in the range x>=0"),
        (["--cancel", *MOVES, "--timeout", "2147483648"], "is not in the range 1<=x<=2147483647"),
        (["--verify", *MOVES, *CONTROLLER], "--bootstrap-controller goes with --cancel or --list"),
        (["--cancel", *MOVES, *CONTROLLER], "--cancel by way of a controller needs --preserve"),
        (
            ["--execute", "--replica-alter-log-dirs-throttle", "5"],
            "replicas stay in their log directories",
        ),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(run, arguments, said):
    answer = run(*arguments)
    assert (answer.exit_code, said in answer.output) == (2, True)
