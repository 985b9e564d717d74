"""Our commands beside Apache Kafka's own, on Apache Kafka: the same flags, the same lines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.apache import ApacheNode, run_tool
from tests.interop.suite import SECONDS_MAX, eventually, new_topic

pytestmark = pytest.mark.interop

SCRIPT = str(Path(sys.executable).with_name("tidelog"))
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"

Command = Callable[..., str]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with ApacheNode() as node:
        yield node.bootstrap_servers


@pytest.fixture
def ours(servers: str) -> Command:
    def run(command: str, *arguments: str, stdin: str = "", code: int = 0) -> str:
        finished = subprocess.run(
            [SCRIPT, command, "--bootstrap-server", servers, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * SECONDS_MAX,
        )
        assert finished.returncode == code, finished.stderr
        return finished.stdout if code == 0 else finished.stderr

    return run


@pytest.fixture
def apaches(servers: str) -> Command:
    def run(class_name: str, *arguments: str, stdin: str = "") -> str:
        return run_tool(class_name, "--bootstrap-server", servers, *arguments, stdin=stdin)

    return run


def create(ours: Command, topic: str, *arguments: str) -> str:
    """What our command says; the broker knows the topic when this returns."""
    created = ours("topics", "--create", "--topic", topic, *arguments)
    eventually(lambda: topic in ours("topics", "--list").split())
    return created


def in_order(described: str) -> list[str]:
    """Kafka prints a topic's configs in no particular order, we by name."""
    lines = []
    for line in described.splitlines():
        head, label, configs = line.partition("\tConfigs: ")
        lines.append(head + label + ",".join(sorted(configs.split(","))))
    return lines


def test_topics_are_shown_as_kafka_shows_them(ours, apaches):
    topic = new_topic()
    created = create(
        ours, topic, "--partitions", "3", "--replication-factor", "1",
        "--config", "retention.ms=12345", "--config", "cleanup.policy=compact,delete",
    )  # fmt: skip
    assert created == f"Created topic {topic}.\n"
    describe = ("--describe", "--topic", topic)
    for arguments in (
        ("--list",),
        describe,
        ("--describe", "--unavailable-partitions"),
        (*describe, "--at-min-isr-partitions"),
        ("--describe", "--topics-with-overrides"),
    ):
        assert in_order(ours("topics", *arguments)) == in_order(apaches("TopicCommand", *arguments))
    refused = ours("topics", "--alter", "--topic", topic, "--partitions", "2", code=1)
    assert "3 partition(s); 2 would not be an increase" in refused


def test_configs_are_shown_as_kafka_shows_them(ours, apaches):
    topic = new_topic()
    create(ours, topic)
    alter = ("--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config")
    value = "cleanup.policy=[compact,delete],retention.ms=12345"
    assert ours("configs", *alter, value) == apaches(CONFIG_COMMAND, *alter, value)
    ours("configs", "--alter", "--broker", "1", "--add-config", "log.cleaner.threads=1")
    broker = ("configs", "--describe", "--broker", "1")
    eventually(lambda: "log.cleaner.threads=1" in ours(*broker))
    for described in (
        ("--entity-type", "topics", "--entity-name", topic),
        ("--topic", topic, "--all"),
        ("--entity-type", "brokers"),
        ("--entity-type", "brokers", "--entity-name", "1"),
        ("--broker-defaults",),
    ):
        mine = ours("configs", "--describe", *described)
        theirs = apaches(CONFIG_COMMAND, "--describe", *described)
        # Kafka prints the entries in no particular order.
        assert sorted(mine.splitlines()) == sorted(theirs.splitlines())


def test_lines_go_through_kafkas_tools_and_ours_in_either_direction(ours, apaches):
    topic = new_topic()
    create(ours, topic, "--partitions", "1")
    lines = "a:1,b:2\tkey one\tvalue one\na:\t\t\nx:y:z\tNIL\tNIL\n"
    properties = ["parse.key=true", "parse.headers=true", "null.marker=NIL"]
    reader = [part for p in properties for part in ("--reader-property", p)]
    apaches("ConsoleProducer", "--topic", topic, *reader, stdin=lines)
    ours("produce", "--topic", topic, *reader, stdin=lines)
    shown = ["timestamp", "partition", "offset", "headers", "key", "value"]
    printed = [part for s in shown for part in ("--formatter-property", f"print.{s}=true")]
    place = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "6")
    mine = ours("consume", *place, *printed)
    assert mine == apaches(CONSOLE_CONSUMER, *place, *printed)
    rows = [line.split("\t")[3:] for line in mine.splitlines()]
    assert rows[:3] == rows[3:]
    assert rows[0] == ["a:1,b:2", "key one", "value one"]
    assert rows[2] == ["x:y:z", "null", "null"]


def test_a_key_goes_where_javas_producer_puts_it(ours, apaches):
    topic = new_topic()
    create(ours, topic, "--partitions", "7")
    lines = "".join(f"key-{number}\tvalue\n" for number in range(100))
    apaches("ConsoleProducer", "--topic", topic, "--reader-property", "parse.key=true", stdin=lines)
    ours("produce", "--topic", topic, "--parse-key", stdin=lines)
    place = ("--topic", topic, "--from-beginning", "--max-messages", "200")
    read = ours("consume", *place, "--print-partition", "--print-key")
    places = {tuple(line.split("\t")[:2]) for line in read.splitlines()}
    assert len(places) == 100
