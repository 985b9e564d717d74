"""Tasks fail and the node is killed by kill -9 while Spark writes: nothing is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.interop.tidelog_node import TidelogNode
from tests.spark.jvm import need_java
from tests.spark.killed_write import TASKS
from tests.unit.spark.topics import Topics
from tests.unit.spark.written import read_all
from tidelog.client import TopicPartition
from tidelog.client.offsets import LATEST, list_offsets
from tidelog.server.forking import with_parent

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KILLS = 5
STREAM_KILLS = 3
STREAM_RUNS = 2
STREAM_ROWS = 2_000
"""Of a micro-batch."""
LIVES_SECONDS = (0.2, 1.0)
SECONDS_MAX = 300


def test_nothing_is_lost_while_tasks_fail_and_the_node_is_killed(tmp_path: Path) -> None:
    need_java()
    rng = random.Random(3)
    node = TidelogNode(tmp_path / "node")
    node.start()
    topics = Topics(node.bootstrap_servers)
    topics.create("t", TASKS)
    command = [sys.executable, "-m", "tests.spark.killed_write", node.bootstrap_servers, "t"]
    writing = subprocess.Popen([*command, str(tmp_path)], cwd=ROOT, preexec_fn=with_parent())
    try:
        # The second attempt of the last task is what fills this partition so far.
        last = TopicPartition("t", TASKS - 1)
        waiting = threading.Event()
        while topics.client.run(list_offsets, {last: LATEST})[last].offset < 20_000:
            assert writing.poll() is None
            waiting.wait(0.2)
        for _ in range(KILLS):
            waiting.wait(rng.uniform(*LIVES_SECONDS))
            node.kill()
            node.start()
        (tmp_path / "stop").touch()
        assert writing.wait(SECONDS_MAX) == 0
        found = read_all(node.bootstrap_servers, "t", TASKS)
    finally:
        writing.kill()
        writing.wait()
        topics.client.close()
        node.kill()
    for task in range(TASKS):
        count, attempt = map(int, (tmp_path / f"written-{task}").read_text().split())
        numbers = []
        for record in found:
            if record.partition == task:
                writer, number = map(int, (record.value or b"").split())
                assert writer == task
                numbers.append(number)
        # The attempt that succeeded wrote each row once, in order, behind what failed before it.
        assert attempt == (task == TASKS - 1)
        assert numbers[-count:] == list(range(count))
        assert attempt or len(numbers) == count


def committed(checkpoint: Path) -> int:
    """How many micro-batches are, by Spark's own books."""
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def start_stream(spark: Any, node: TidelogNode, checkpoint: Path) -> Any:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", STREAM_ROWS).load()
    options = {
        "kafka.bootstrap.servers": node.bootstrap_servers,
        "kafka.linger.ms": "0",
        "kafka.retry.backoff.ms": "20",
        "checkpointLocation": str(checkpoint),
        "topic": "t",
    }
    writer = rows.selectExpr("CAST(value AS STRING) AS value").writeStream.format("tidelog")
    return writer.options(**options).start()


def wait_for_batches(query: Any, checkpoint: Path, count: int) -> None:
    until = committed(checkpoint) + count
    waiting = threading.Event()
    deadline = time.monotonic() + SECONDS_MAX
    while committed(checkpoint) < until:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        waiting.wait(0.02)


def test_a_stream_loses_nothing_while_the_node_is_killed(spark: Any, tmp_path: Path) -> None:
    """No task fails of it. The second run goes on from the checkpoint of the first."""
    rng = random.Random(5)
    checkpoint = tmp_path / "checkpoint"
    node = TidelogNode(tmp_path / "node")
    node.start()
    topics = Topics(node.bootstrap_servers)
    topics.create("t", 2)
    topics.client.close()
    try:
        for _ in range(STREAM_RUNS):
            query = start_stream(spark, node, checkpoint)
            try:
                for _ in range(STREAM_KILLS):
                    wait_for_batches(query, checkpoint, 2)
                    threading.Event().wait(rng.uniform(0, 0.3))
                    node.kill()
                    node.start()
                wait_for_batches(query, checkpoint, 2)
            finally:
                query.stop()
        found = read_all(node.bootstrap_servers, "t", 2)
    finally:
        node.kill()
    count = committed(checkpoint) * STREAM_ROWS
    written = Counter(int(record.value or b"") for record in found)
    assert count > 2 * STREAM_RUNS * STREAM_KILLS * STREAM_ROWS
    assert not set(range(count)) - written.keys()
    # What the end of a run interrupts is written again, and nothing else is.
    assert sum(written.values()) - len(written) <= STREAM_RUNS * STREAM_ROWS
