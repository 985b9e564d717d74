"""A damaged partition: offline by itself, cut by command, and served again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.node_client import PROPERTIES

from tidelog.cli.main import tidelog
from tidelog.config.broker import BrokerConfig
from tidelog.disk import RealDisk
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import Flush, Flushed, Ticked
from tidelog.loading import load_node, stop_node
from tidelog.node import Node
from tidelog.replica.partition import Partition
from tidelog.types import ZERO_UUID
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_validation import ValidBatch, validate_produced
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

NOW = Now(1000, 1_700_000_000_000)


def start(path: Path) -> Node:
    config = BrokerConfig.from_properties(PROPERTIES | {"log.dirs": str(path)})
    return load_node(config, RealDisk(), random.Random(0), NOW)


def partition(node: Node) -> Partition | ErrorCode:
    return node.broker.hosted("t", ZERO_UUID, 0, NOW)


def fill(path: Path) -> None:
    """Ten batches, then a crash: nothing says that the stop was clean."""
    node = start(path)
    topic = CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    node.broker.controller.ask(CreateTopicsRequest(topics=(topic,)), lambda *_: None, NOW)
    for effect in node.step(Ticked(), NOW):
        if isinstance(effect, Flush):
            for work in effect.work:
                work.flush(RealDisk())
            node.step(Flushed(effect.token), NOW)
    hosted = partition(node)
    assert isinstance(hosted, Partition)
    for number in range(10):
        builder = BatchBuilder()
        builder.append(None, b"value %d" % number, timestamp=NOW.wall_ms)
        valid = validate_produced(
            builder.build(), hosted.produce_rules, produce_version=9, now_ms=NOW.wall_ms
        )
        assert isinstance(valid, ValidBatch)
        hosted.append(valid, NOW)
    node.broker.log_dirs.metadata.abandon()


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A flipped bit in the fifth of ten batches."""
    fill(tmp_path)
    log = tmp_path / "t-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 10 * 4 + 30] ^= 1
    log.write_bytes(content)
    return tmp_path


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(tidelog, ["repair-log", *args])
    return result.exit_code, result.output


def test_a_damaged_partition_is_offline_until_it_is_cut(damaged: Path) -> None:
    directory = str(damaged / "t-0")
    before = (damaged / "t-0" / "00000000000000000000.log").read_bytes()
    node = start(damaged)
    assert partition(node) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "0.log is damaged at position" in str(node.broker.log_dirs.metadata.damaged["t", 0])
    assert run(directory)[0] == 1  # the node still runs
    assert "stop it first" in run(directory)[1]
    node.broker.log_dirs.metadata.abandon()

    code, said = run(directory)
    assert code == 1
    assert "--cut" in said
    assert (damaged / "t-0" / "00000000000000000000.log").read_bytes() == before

    assert run(directory, "--cut")[0] == 0
    node = start(damaged)
    hosted = partition(node)
    assert isinstance(hosted, Partition)
    assert hosted.log.log_end_offset == 4
    stop_node(node, NOW)
    code, said = run(directory)
    assert (code, said) == (0, f"{directory}: every batch is sound\n")


def test_what_is_no_partition_is_refused(tmp_path: Path) -> None:
    code, said = run(str(tmp_path))
    assert code == 1
    assert "want TOPIC-NUMBER" in said
