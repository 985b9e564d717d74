"""`tidelog topics`: its lines are Kafka's, its errors one line, its exit codes tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.cli.cluster import CommandCluster, Run, asked, runner
from tests.unit.client.memory import MemoryBroker, topic_id

from tidelog.cli.main import tidelog
from tidelog.types import format_uuid
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tidelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse


@pytest.fixture
def cluster() -> CommandCluster:
    found = CommandCluster()
    found.leaders = {"orders": {0: (1, 0), 1: (-1, 2)}, "returns": {0: (2, 0)}}
    found.configs = {
        "orders": [("retention.ms", "5", 1), ("min.insync.replicas", "2", 5)],
        "returns": [("min.insync.replicas", "1", 4)],
    }

    def create(broker: MemoryBroker, request: Any) -> CreateTopicsResponse:
        (topic,) = request.topics
        exists = topic.name in found.leaders
        result = CreatableTopicResult(
            name=topic.name,
            error_code=36 if exists else 0,
            error_message=f"Topic '{topic.name}' already exists." if exists else None,
        )
        return CreateTopicsResponse(topics=(result,))

    def delete(broker: MemoryBroker, request: Any) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(
            responses=tuple(
                DeletableTopicResult(name=topic.name, error_code=0) for topic in request.topics
            )
        )

    def extend(broker: MemoryBroker, request: Any) -> CreatePartitionsResponse:
        results = tuple(
            CreatePartitionsTopicResult(
                name=topic.name,
                error_code=0 if topic.count > len(found.leaders[topic.name]) else 37,
                error_message="would not be an increase",
            )
            for topic in request.topics
        )
        return CreatePartitionsResponse(results=results)

    found.handle(ApiKey.CREATE_TOPICS, create)
    found.handle(ApiKey.DELETE_TOPICS, delete)
    found.handle(ApiKey.CREATE_PARTITIONS, extend)
    return found


@pytest.fixture
def run(cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(cluster, monkeypatch, "topics")


def test_topics_are_listed_by_name(run):
    assert run("--list").output == "orders\nreturns\n"
    assert run("--list", "--topic", "ord.*").output == "orders\n"
    assert run("--list", "--topic", "ord").output == ""
    assert run("--list", "--topic", "nope, returns").output == "returns\n"
    assert json.loads(run("--list", "--json").output) == ["orders", "returns"]


def test_topics_are_described_in_kafkas_lines(run):
    answer = run("--describe", "--topic", "orders")
    assert answer.exit_code == 0
    assert answer.output == (
        f"Topic: orders\tTopicId: {format_uuid(topic_id('orders'))}\tPartitionCount: 2\t"
        "ReplicationFactor: 1\tConfigs: retention.ms=5\n"
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: N/A\t"
        "LastKnownElr: N/A\n"
        "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 1\tIsr: 1\tElr: N/A\t"
        "LastKnownElr: N/A\n"
    )


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--topic", "orders"),
        ("--topics-with-overrides",),
        ("--unavailable-partitions",),
        ("--under-replicated-partitions",),
        ("--under-min-isr-partitions",),
        ("--at-min-isr-partitions",),
    ],
)
def test_a_terminal_shows_the_same_lines(run, monkeypatch, flags):
    piped = run("--describe", *flags)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    shown = run("--describe", *flags)
    assert (shown.exit_code, shown.output) == (0, piped.output)


@pytest.mark.parametrize(
    ("flag", "partitions"),
    [
        ("--unavailable-partitions", [("orders", 1)]),
        ("--under-replicated-partitions", []),
        ("--under-min-isr-partitions", [("orders", 0), ("orders", 1)]),
        ("--at-min-isr-partitions", [("returns", 0)]),
    ],
)
def test_partitions_in_trouble_are_found(run, flag, partitions):
    lines = run("--describe", flag).output.splitlines()
    fields = [line.split("\t") for line in lines]
    assert [(f[1].split()[1], int(f[2].split()[1])) for f in fields] == partitions


def test_a_replica_on_its_way_is_shown_and_does_not_count(cluster, run):
    cluster.move("returns", 0, replicas=(1, 2), adding_replicas=(1,), removing_replicas=(2,))
    first, line = run("--describe", "--topic", "returns").output.splitlines()
    assert "ReplicationFactor: 0" in first
    assert "\tIsr: 1\tAdding Replicas: 1\tRemoving Replicas: 2\tElr: N/A\t" in line
    (topic,) = json.loads(run("--describe", "--topic", "returns", "--json").output)
    assert topic["partitions"][0]["adding"] == [1]


def test_a_partition_lags_without_counting_replicas_on_their_way(cluster, run):
    lagging = cluster.metadata

    def metadata(request):
        answer = lagging(request)
        topics = tuple(
            topic.replace(
                partitions=tuple(p.replace(replica_nodes=(1, 2)) for p in topic.partitions)
            )
            for topic in answer.topics
        )
        return answer.replace(topics=topics)

    for broker in cluster.brokers.values():
        broker.handlers[ApiKey.METADATA] = metadata
    flags = ("--describe", "--under-replicated-partitions")
    assert len(run(*flags).output.splitlines()) == 3
    cluster.move("orders", 1, adding_replicas=(2,))
    shown = run(*flags).output
    assert "Topic: orders\tPartition: 1" not in shown
    assert len(shown.splitlines()) == 2


def test_topics_with_overrides_are_shown_without_their_partitions(cluster, run):
    """Kafka's tool counts those of the broker's file, too."""
    cluster.leaders["plain"] = {0: (1, 0)}
    cluster.configs["plain"] = [("min.insync.replicas", "1", 5)]
    lines = run("--describe", "--topics-with-overrides").output.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["Topic: orders", "Topic: returns"]


def test_a_config_to_delete_is_warned_of_and_ignored_as_kafkas_tool_does(cluster, run):
    answer = run("--create", "--topic", "new", "--delete-config", "retention.ms")
    assert (answer.exit_code, answer.stdout) == (0, "Created topic new.\n")
    assert "delete-config option is no longer supported" in answer.stderr
    assert asked(cluster, ApiKey.CREATE_TOPICS).topics[0].configs == ()


def test_a_topic_is_found_by_its_id(run):
    answer = run("--describe", "--topic-id", format_uuid(topic_id("returns")))
    assert answer.output.startswith("Topic: returns\t")


def test_json_tells_topics_configs_and_partitions(run):
    (orders, returns) = json.loads(run("--describe", "--json").output)
    assert (orders["topic"], orders["configs"]) == ("orders", {"retention.ms": "5"})
    assert [p["leader_id"] for p in orders["partitions"]] == [1, -1]
    assert returns["topic"] == "returns"


def test_a_topic_is_created_with_what_was_said(cluster, run):
    answer = run("--create", "--topic", "new", "--partitions", "3", "--config", "retention.ms=5")
    assert (answer.exit_code, answer.output) == (0, "Created topic new.\n")
    (topic,) = asked(cluster, ApiKey.CREATE_TOPICS).topics
    assert (topic.num_partitions, topic.replication_factor) == (3, -1)
    assert topic.configs[0].name == "retention.ms"


def test_replicas_can_be_placed(cluster, run):
    run("--create", "--topic", "new", "--replica-assignment", "1:2,2:3")
    (topic,) = asked(cluster, ApiKey.CREATE_TOPICS).topics
    assert [a.broker_ids for a in topic.assignments] == [(1, 2), (2, 3)]


def test_an_existing_topic_is_an_error_unless_it_is_fine(run):
    answer = run("--create", "--topic", "orders")
    assert answer.exit_code == 1
    assert answer.output == "Error: topic orders: Topic 'orders' already exists.\n"
    answer = run("--create", "--topic", "orders", "--if-not-exists")
    assert (answer.exit_code, answer.output) == (0, "")


def test_names_that_collide_in_metrics_are_warned_of(run):
    answer = run("--create", "--topic", "a_b.c")
    assert "could collide" in answer.output
    assert answer.exit_code == 0


def test_topics_are_deleted_by_pattern(cluster, run):
    answer = run("--delete", "--topic", ".*")
    assert answer.output == "Deleted topic orders.\nDeleted topic returns.\n"
    assert len(asked(cluster, ApiKey.DELETE_TOPICS).topics) == 2


@pytest.mark.parametrize("action", ["--delete", "--describe", "--alter"])
def test_a_missing_topic_is_an_error_unless_it_is_fine(run, action):
    more = ["--partitions", "4"] if action == "--alter" else []
    answer = run(action, "--topic", "nope", *more)
    assert answer.exit_code == 1
    assert answer.output.startswith("Error: Topic 'nope' does not exist as expected")
    answer = run(action, "--topic", "nope", "--if-exists", *more)
    assert (answer.exit_code, answer.output) == (0, "")


def test_partitions_are_added_where_the_user_says(cluster, run):
    answer = run(
        "--alter", "--topic", "orders", "--partitions", "4", "--replica-assignment", "1,2,3,1"
    )
    assert answer.output == "Topic orders has 4 partitions.\n"
    (topic,) = asked(cluster, ApiKey.CREATE_PARTITIONS).topics
    assert topic.count == 4
    assert [a.broker_ids for a in topic.assignments] == [(3,), (1,)]


def test_fewer_partitions_are_refused_by_the_broker(run):
    answer = run("--alter", "--topic", "orders", "--partitions", "1")
    assert (answer.exit_code, answer.output) == (
        1,
        "Error: topic orders: would not be an increase\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to do: --create, --delete, --describe, --list, --alter"),
        (["--create"], "--create needs --topic NAME"),
        (["--alter", "--topic", "orders"], "--alter needs --partitions N"),
        (["--describe", "--config", "a=b"], "--config goes with --create"),
        (["--list", "--unavailable-partitions"], "--unavailable-partitions goes with --describe"),
        (["--delete", "--topic", "a", "--at-min-isr-partitions"], "goes with --describe"),
        (["--list", "--topics-with-overrides"], "--topics-with-overrides goes with --describe"),
        (["--create", "--topic", "a", "--if-exists"], "--if-exists goes with"),
        (["--delete", "--topic", "a", "--if-not-exists"], "--if-not-exists goes with --create"),
        (["--list", "--partitions", "3"], "--partitions goes with --create or --alter"),
        (["--create", "--topic", "a", "--config", "a"], "'a' is not NAME=VALUE"),
        (
            ["--create", "--topic", "a", "--replica-assignment", "1", "--partitions", "1"],
            "stands in place of",
        ),
        (["--create", "--topic", "a", "--replica-assignment", "1:x"], "is not like 1:2,2:3"),
        (["--create", "--topic", "a", "--replica-assignment", "1:1"], "names a broker twice"),
        (["--list", "--topic", "("], "is no regular expression"),
        (["--create", "--topic", "a", "--partitions", "0"], "0 is not in the range"),
        *(
            (
                ["--describe", "--topics-with-overrides", f"--{name}-partitions"],
                f"--{name}-partitions cannot be used with --topics-with-overrides",
            )
            for name in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr")
        ),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_says_what_is_right(run, arguments, said):
    answer = run(*arguments)
    assert answer.exit_code == 2
    assert said in answer.output


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--create", "--topic", "a", "--partitions", "{}"], "num_partitions"),
        (["--alter", "--topic", "orders", "--partitions", "{}"], "count"),
        (["--create", "--topic", "a", "--replica-assignment", "1:{}"], "broker_ids"),
        (["--describe", "--partition-size-limit-per-response", "{}"], "response_partition_limit"),
    ],
)
def test_a_number_that_the_protocol_has_no_room_for_is_one_line(cluster, run, arguments, field):
    if "--describe" in arguments:
        for broker in cluster.brokers.values():
            broker.served[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = (0, 0)
    answer = run(*(argument.format(99999999999) for argument in arguments))
    (line,) = answer.output.splitlines()
    assert (answer.exit_code, line.partition(": ")[0]) == (1, "Error")
    assert line.endswith(f": 99999999999 does not fit {field}, which has 32 bits")


def test_a_cluster_that_is_gone_is_one_line_that_says_what_to_do(cluster, run):
    cluster.alive.clear()
    answer = run("--list")
    assert answer.exit_code == 1
    (line,) = answer.output.splitlines()
    assert line.startswith("Error: cannot reach a broker at broker:1,broker:2,broker:3")
    assert "connection refused" in line
    assert "`tidelog up`" in line


def test_the_client_is_configured_under_kafkas_names(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("group.id=orders\n")
    answer = CliRunner().invoke(tidelog, ["topics", "--list", "--command-config", str(file)])
    assert answer.exit_code == 2
    assert "the client does not know group.id" in answer.output
    answer = CliRunner().invoke(
        tidelog, ["topics", "--list", "--command-property", "security.protocol=SSL"]
    )
    assert (answer.exit_code, "PLAINTEXT only" in answer.output) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"client.id=caf\xe9\n", "is not UTF-8"),
        (b"client.id=\\u00zz\n", "want four hexadecimal digits behind \\u, not '00zz'"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["topics", "--list", "--command-config"],
        ["cluster", "cluster-id", "--config"],
        ["configs", "--alter", "--topic", "t", "--add-config-file"],
        ["start"],
    ],
)
def test_a_properties_file_that_cannot_be_read_is_one_line_that_names_it(
    monkeypatch, tmp_path, command, content, said
):
    monkeypatch.setattr("gc.disable", lambda: None)  # `start` means the whole process
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    answer = CliRunner().invoke(tidelog, [*command, str(file)])
    line = answer.output.splitlines()[-1]
    assert (answer.exit_code, line.startswith(f"Error: {file}"), said in line) == (1, True, True)


@pytest.mark.parametrize(
    ("command", "old_name"),
    [
        (["leader-election", "--election-type", "preferred", "--topic", "t"], "--admin.config"),
        (["cluster", "cluster-id"], "--config"),
        (["cluster", "list-endpoints"], "--config"),
        (["cluster", "unregister", "--id", "1"], "--config"),
    ],
)
def test_the_old_name_of_the_clients_file_is_taken_and_not_shown(tmp_path, command, old_name):
    file = tmp_path / "client.properties"
    file.write_text("group.id=orders\n")
    answer = CliRunner().invoke(tidelog, [*command, old_name, str(file)])
    assert answer.exit_code == 2
    assert f"Option {old_name} has been deprecated" in answer.stderr
    assert "the client does not know group.id" in answer.stderr
    both = [*command, old_name, str(file), "--command-config", str(file)]
    answer = CliRunner().invoke(tidelog, both)
    assert (answer.exit_code, "cannot be given together" in answer.stderr) == (2, True)
    assert old_name not in CliRunner().invoke(tidelog, [*command, "--help"]).output.split()


def test_a_partition_with_a_replica_to_spare_is_not_at_its_minimum(cluster, run):
    cluster.configs["returns"] = [("min.insync.replicas", "0", 1)]
    assert run("--describe", "--at-min-isr-partitions").output == ""
