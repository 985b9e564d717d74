"""`tidelog configs`: Kafka's lines, Kafka's way to write values."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from tests.unit.cli.cluster import CommandCluster, Run, runner
from tests.unit.client.memory import MemoryBroker

from tidelog.cli.configs import parse_configs
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from tidelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


@pytest.fixture
def cluster() -> CommandCluster:
    found = CommandCluster()
    found.leaders = {"orders": {0: (1, 0)}}
    found.configs = {
        "orders": [("retention.ms", "5", 1), ("segment.ms", "7", 5)],
        "1": [("log.cleaner.threads", "2", 2), ("min.insync.replicas", "1", 3)],
        "": [("min.insync.replicas", "1", 3)],
    }

    def alter(broker: MemoryBroker, request: Any) -> IncrementalAlterConfigsResponse:
        (resource,) = request.resources
        bad = any(change.value == "x" for change in resource.configs)
        result = AlterConfigsResourceResponse(
            error_code=40 if bad else 0,
            error_message="Invalid value x for configuration retention.ms" if bad else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        return IncrementalAlterConfigsResponse(responses=(result,))

    brokers = (DescribeClusterBroker(broker_id=1, host="broker", port=1),)
    described = DescribeClusterResponse(error_code=0, cluster_id="m", brokers=brokers)
    found.handle(ApiKey.DESCRIBE_CLUSTER, lambda *_: described)
    found.handle(ApiKey.INCREMENTAL_ALTER_CONFIGS, alter)
    return found


@pytest.fixture
def run(cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(cluster, monkeypatch, "configs")


ORDERS = (
    "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5}\n",
    "  segment.ms=7 sensitive=false synonyms={DEFAULT_CONFIG:segment.ms=7}\n",
)


@pytest.mark.parametrize("named", [["--topic"], ["--entity-type", "topics", "--entity-name"]])
def test_a_topics_own_configs_are_described_in_kafkas_lines(run, named):
    answer = run("--describe", *named, "orders")
    assert answer.exit_code == 0
    assert answer.output == "Dynamic configs for topic orders are:\n" + ORDERS[0]


def test_all_configs_include_defaults(run):
    answer = run("--describe", "--topic", "orders", "--all")
    assert answer.output == "All configs for topic orders are:\n" + "".join(ORDERS)


def test_brokers_and_their_default_are_described(run):
    answer = run("--describe", "--entity-type", "brokers")
    assert answer.output == (
        "Dynamic configs for broker 1 are:\n"
        "  log.cleaner.threads=2 sensitive=false "
        "synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2}\n"
        "Default configs for brokers in the cluster are:\n"
        "  min.insync.replicas=1 sensitive=false "
        "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1}\n"
    )
    assert run("--describe", "--broker-defaults").output.startswith("Default configs")


def test_json_tells_the_source(run):
    (shown,) = json.loads(run("--describe", "--topic", "orders", "--all", "--json").output)
    assert (shown["type"], shown["name"]) == ("topic", "orders")
    assert [c["source"] for c in shown["configs"]] == ["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"]


def test_configs_are_set_and_deleted(cluster, run, tmp_path):
    file = tmp_path / "configs.properties"
    file.write_text("segment.bytes=1000000\n")
    answer = run(
        "--alter", "--topic", "orders", "--add-config", "cleanup.policy=[compact,delete]",
        "--add-config-file", str(file), "--delete-config", "retention.ms, segment.ms",
    )  # fmt: skip
    assert (answer.exit_code, answer.output) == (0, "Completed updating config for topic orders.\n")
    (request,) = cluster.brokers[1].asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    changes = [(c.name, c.config_operation, c.value) for c in request.resources[0].configs]
    assert changes == [
        ("segment.bytes", 0, "1000000"),
        ("cleanup.policy", 0, "compact,delete"),
        ("retention.ms", 1, None),
        ("segment.ms", 1, None),
    ]


def test_the_default_of_brokers_is_changed(cluster, run):
    answer = run(
        "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "a=1"
    )  # fmt: skip
    assert answer.output == "Completed updating default config for brokers in the cluster.\n"


def test_a_value_that_the_broker_refuses_is_one_line(run):
    answer = run("--alter", "--topic", "orders", "--add-config", "retention.ms=x")
    assert (answer.exit_code, answer.output) == (
        1,
        "Error: topic orders: Invalid value x for configuration retention.ms\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--topic", "a"], 2, "say what to do: --describe or --alter"),
        (["--describe"], 2, "name what has the configs"),
        (["--alter", "--topic", "a"], 2, "--alter needs --add-config"),
        (["--alter", "--entity-type", "topics", "--add-config", "a=1"], 2, "--entity-name"),
        (["--describe", "--entity-type", "users"], 2, "'users' is not one of"),
        (["--describe", "--topic", "nope"], 1, "topic nope: there is no such topic"),
        (["--describe", "--broker", "9"], 1, "there is no broker 9; the brokers are 1, 2, 3"),
    ],
)
def test_mistakes_are_told(run, arguments, code, said):
    answer = run(*arguments)
    assert answer.exit_code == code
    assert said in answer.output


def test_values_with_commas_are_in_brackets():
    assert parse_configs("a=1, b=[x,y] ,c=") == {"a": "1", "b": "x,y", "c": ""}
    assert parse_configs("a=b=c") == {"a": "b=c"}
    assert parse_configs("") == {}


@pytest.mark.parametrize("bad", ["a", "a=1,b", "=1", "a=[1,2", "a=[1]2"])
def test_values_that_cannot_be_read_are_named(bad):
    with pytest.raises(click.BadParameter):
        parse_configs(bad)
