"""Tasks fail and the node is killed by kill -9 while Spark writes: nothing is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

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
