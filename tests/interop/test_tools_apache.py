"""Apache Kafka's own command line tools, which know their broker better than any other client.

Each call starts a JVM, so a test makes the few that tell most.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.apache import run_tool
from tests.interop.process import NodeProcess
from tests.interop.suite import (
    HUNDRED_THOUSAND,
    MEGABYTE,
    SECONDS_MAX,
    Begin,
    eventually,
    new_topic,
)
from tests.interop.test_clients_confluent import Confluent

pytestmark = pytest.mark.interop
Tool = Callable[..., str]
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"


@pytest.fixture
def tool(bootstrap_servers: str) -> Tool:
    def run(class_name: str, *args: str, stdin: str = "", check: bool = True) -> str:
        server = ("--bootstrap-server", bootstrap_servers)
        return run_tool(class_name, *server, *args, stdin=stdin, check=check)

    return run


def properties(option: str, **values: str) -> list[str]:
    """--option a.b=c for a_b=c, repeated."""
    return [
        part
        for name, value in values.items()
        for part in (option, f"{name.replace('_', '.')}={value}")
    ]


def consumed(
    tool: Tool, topic: str, count: int, *, offset: str = "earliest", **printed: str
) -> str:
    place = ["--topic", topic, "--partition", "0", "--offset", offset]
    limits = ["--max-messages", str(count), "--timeout-ms", str(SECONDS_MAX * 1000)]
    shown = properties("--formatter-property", **printed)
    return tool(CONSOLE_CONSUMER, *place, *limits, *shown)


def test_topic_command(tool: Tool) -> None:
    topic = new_topic()
    create = ["--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1"]
    created = tool("TopicCommand", *create, "--config", "retention.ms=1234567")
    assert f"Created topic {topic}." in created
    again = tool("TopicCommand", *create, check=False)
    assert f"Topic '{topic}' already exists." in again
    first, *partitions = tool("TopicCommand", "--describe", "--topic", topic).splitlines()
    assert re.search(rf"Topic: {topic}\tTopicId: \S{{22}}\tPartitionCount: 3\tReplic", first)
    assert "retention.ms=1234567" in first
    assert len(partitions) == 3
    for number, line in enumerate(partitions):
        assert f"Partition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1" in line
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "5")
    fewer = tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "2", check=False)
    assert "InvalidPartitionsException" in fewer
    eventually(lambda: "PartitionCount: 5" in tool("TopicCommand", "--describe", "--topic", topic))
    tool("TopicCommand", "--delete", "--topic", topic)
    eventually(lambda: topic not in tool("TopicCommand", "--list").split())
    missing = tool("TopicCommand", "--describe", "--topic", topic, check=False)
    assert f"Topic '{topic}' does not exist as expected" in missing


def test_config_command_on_a_topic(tool: Tool) -> None:
    topic = new_topic()
    tool("TopicCommand", "--create", "--topic", topic)
    entity = ["--entity-type", "topics", "--entity-name", topic]
    change = "max.message.bytes=2000000,cleanup.policy=[compact,delete]"
    altered = tool(CONFIG_COMMAND, *entity, "--alter", "--add-config", change)
    assert f"Completed updating config for topic {topic}." in altered
    lines = tool(CONFIG_COMMAND, *entity, "--describe").splitlines()
    assert (
        "  max.message.bytes=2000000 sensitive=false synonyms="
        "{DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, DEFAULT_CONFIG:message.max.bytes=1048588}"
    ) in lines
    assert any(line.startswith("  cleanup.policy=compact,delete ") for line in lines)
    tool(CONFIG_COMMAND, *entity, "--alter", "--delete-config", "max.message.bytes")
    everything = tool(CONFIG_COMMAND, *entity, "--describe", "--all")
    assert re.search(r"^  max.message.bytes=1048588 .*DEFAULT_CONFIG", everything, re.MULTILINE)
    wrong = tool(CONFIG_COMMAND, *entity, "--alter", "--add-config", "segment.bytes=x", check=False)
    assert "InvalidConfigurationException" in wrong
    assert "segment.bytes" in wrong


def test_config_command_on_a_broker(tool: Tool) -> None:
    """A static config is shown, a dynamic one changes for this broker and goes back."""
    entity = ["--entity-type", "brokers", "--entity-name", "1"]
    everything = tool(CONFIG_COMMAND, *entity, "--describe", "--all")
    assert re.search(r"^  node.id=1 .*STATIC_BROKER_CONFIG:node.id=1", everything, re.MULTILINE)
    tool(CONFIG_COMMAND, *entity, "--alter", "--add-config", "log.cleaner.backoff.ms=12345")
    eventually(
        lambda: (
            "DYNAMIC_BROKER_CONFIG:log.cleaner.backoff.ms=12345"
            in tool(CONFIG_COMMAND, *entity, "--describe")
        )
    )
    tool(CONFIG_COMMAND, *entity, "--alter", "--delete-config", "log.cleaner.backoff.ms")
    read_only = ["--alter", "--add-config", "node.id=2"]
    refused = tool(CONFIG_COMMAND, *entity, *read_only, check=False)
    assert "Cannot update these configs dynamically: Set(node.id)" in refused or (
        "InvalidRequestException" in refused
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_tools_carry_odd_records(tool: Tool, codec: str) -> None:
    """The topic is created by the first record."""
    topic = new_topic()
    large = "m" * MEGABYTE
    lines = [
        "a:1,a:2\tkey\tvalue",
        "NULL\tNULL\tnull key",
        "NULL\tnull value\tNULL",
        "NULL\tzero bytes\t",
        f"NULL\tlarge\t{large}",
    ]
    reader = properties(
        "--reader-property", parse_key="true", parse_headers="true", null_marker="NULL"
    )
    produce = ["--topic", topic, "--compression-codec", codec, *reader]
    tool("ConsoleProducer", *produce, stdin="\n".join(lines) + "\n")
    shown = {"print_key": "true", "print_headers": "true", "print_offset": "true"}
    output = consumed(tool, topic, len(lines), **shown)
    assert output.splitlines() == [
        "Offset:0\ta:1,a:2\tkey\tvalue",
        "Offset:1\tNO_HEADERS\tnull\tnull key",
        "Offset:2\tNO_HEADERS\tnull value\tnull",
        "Offset:3\tNO_HEADERS\tzero bytes\t",
        f"Offset:4\tNO_HEADERS\tlarge\t{large}",
    ]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_console_tools_carry_a_hundred_thousand_lines(tool: Tool, acks: str) -> None:
    topic = new_topic()
    lines = [f"{i}:{'x' * (i % 100)}" for i in range(HUNDRED_THOUSAND)]
    produce = ["--topic", topic, "--request-required-acks", acks]
    tool("ConsoleProducer", *produce, stdin="".join(f"{line}\n" for line in lines))
    received = consumed(tool, topic, HUNDRED_THOUSAND).splitlines()
    for number, line in enumerate(received):
        assert line == lines[number]
    assert len(received) == HUNDRED_THOUSAND
    from_an_offset = consumed(tool, topic, 2, offset="77777").splitlines()
    assert from_an_offset == lines[77777:77779]


def test_offsets_deletion_and_log_directories(
    tool: Tool, server: NodeProcess, tmp_path: Path
) -> None:
    topic = new_topic()
    tool("TopicCommand", "--create", "--topic", topic, "--partitions", "2")
    keyless = "\n".join(f"line {i}" for i in range(10)) + "\n"
    tool("ConsoleProducer", "--topic", topic, stdin=keyless)
    offsets = tool("GetOffsetShell", "--topic", topic).splitlines()
    ends = {int(line.split(":")[1]): int(line.split(":")[2]) for line in offsets}
    assert sorted(ends) == [0, 1]
    assert sum(ends.values()) == 10
    full = max(ends, key=lambda partition: ends[partition])
    newest = tool("GetOffsetShell", "--topic-partitions", f"{topic}:{full}", "--time", "-3")
    assert 0 <= int(newest.split(":")[2]) < ends[full]
    half = ends[full] // 2
    place = {"topic": topic, "partition": full, "offset": half}
    request = tmp_path / "delete.json"
    request.write_text(json.dumps({"version": 1, "partitions": [place]}))
    deleted = tool("DeleteRecordsCommand", "--offset-json-file", str(request))
    assert f"partition: {topic}-{full}\tlow_watermark: {half}" in deleted
    earliest = tool("GetOffsetShell", "--topic-partitions", f"{topic}:{full}", "--time", "-2")
    assert earliest == f"{topic}:{full}:{half}\n"
    place["offset"] = 1000
    request.write_text(json.dumps({"version": 1, "partitions": [place]}))
    refused = tool("DeleteRecordsCommand", "--offset-json-file", str(request), check=False)
    assert "OffsetOutOfRangeException" in refused

    described = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    (broker,) = json.loads(described.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["logDir"] == str(server.log_dir)
    assert directory["error"] is None
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert set(sizes) == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-{full}"] > 0


def test_broker_api_versions(tool: Tool) -> None:
    """Every API that the tool's client and this broker share has a usable version."""
    listed = tool("BrokerApiVersionsCommand")
    assert "(id: 1 rack: null isFenced: false) -> (" in listed
    assert "Produce(0): 0 to 13 [usable: 13]" in listed
    for api in ("Fetch", "ListOffsets", "Metadata", "ApiVersions", "CreateTopics", "DeleteTopics"):
        assert re.search(rf"\t{api}\(\d+\): .*\[usable: \d+\]", listed), api


@pytest.mark.parametrize("acks", ["1", "all"])
def test_producer_performance(tool: Tool, acks: str, bootstrap_servers: str) -> None:
    topic = new_topic()
    tool("TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    load = ["--num-records", str(HUNDRED_THOUSAND), "--record-size", "100", "--throughput", "-1"]
    settings = ["--command-property", f"acks={acks}", "--command-property", "compression.type=lz4"]
    report = tool("ProducerPerformance", "--topic", topic, *load, *settings)
    assert f"{HUNDRED_THOUSAND} records sent" in report
    assert tool("GetOffsetShell", "--topic", topic) == f"{topic}:0:{HUNDRED_THOUSAND}\n"
    received = Confluent(bootstrap_servers).consume(topic, 0, Begin(), HUNDRED_THOUSAND)
    for number, (offset, record) in enumerate(received):
        assert (offset, record.key, len(record.value or b"")) == (number, None, 100)


@pytest.mark.parametrize("size", [1, MEGABYTE])
def test_producer_performance_with_records_of_any_size(
    tool: Tool, size: int, bootstrap_servers: str
) -> None:
    topic = new_topic()
    load = ["--num-records", "5", "--record-size", str(size), "--throughput", "-1"]
    limit = ["--command-property", f"max.request.size={2 * MEGABYTE}"]
    assert "5 records sent" in tool("ProducerPerformance", "--topic", topic, *load, *limit)
    received = Confluent(bootstrap_servers).consume(topic, 0, Begin(), 5)
    assert [len(record.value or b"") for _, record in received] == [size] * 5
