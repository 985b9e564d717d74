"""docs/spark.md is true: every block of it runs, against a node with topic `orders`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.interop.tidelog_node import TidelogNode
from tests.spark.jvm import driver_options, need_java
from tests.test_docs import Block, blocks_of
from tests.unit.spark.topics import Topics
from tidelog.spark.pipelines.archive_table import NotAnArchive, open_table
from tidelog.spark.pipelines.archive_verify import verify

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BIN = Path(sys.executable).parent
RECORDS = 500
SECONDS_MAX = 600
LOCAL = {
    "127.0.0.1:9092": "{servers}",
    '.load("data")': '.load("{data}")',
    "spark://host:7077": "local[2]",
}
"""What a document cannot know."""
TABLES = {"archive/orders": "parquet", "lake/orders": "delta", "mnt/orders": "parquet"}
CONF = "--conf spark.driver.bindAddress=127.0.0.1 --conf spark.driver.host=127.0.0.1"


def blocks(language: str) -> list[Block]:
    found = blocks_of("spark.md", PAGE.read_text())
    return [block for block in found if block.language == language]


@pytest.fixture(scope="module")
def node() -> Iterator[TidelogNode]:
    with TidelogNode() as running:
        topics = Topics(running.bootstrap_servers)
        topics.create("orders", 3)
        topics.create("copies", 3)
        for partition in range(3):
            topics.fill("orders", range(RECORDS), partition)
        topics.client.close()
        yield running


def here(text: str, node: TidelogNode) -> str:
    for documented, real in LOCAL.items():
        text = text.replace(
            documented, real.format(servers=node.bootstrap_servers, data=node.log_dir)
        )
    return text


def test_the_page_has_only_blocks_that_are_run():
    languages = [block.language for block in blocks_of("spark.md", PAGE.read_text())]
    assert set(languages) == {"py", "sh"}
    assert len(languages) > 5


def test_the_programs_run_one_after_the_other(spark, node, tmp_path):
    """They are one program: what one defines, later ones use."""
    names = {"spark": spark}
    for block in blocks("py"):
        text = here(block.text, node).replace('"checkpoints/', f'"{tmp_path}/')
        exec(compile(text, block.place, "exec"), names)
    assert names["frame"].count() == 3 * RECORDS
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    assert (
        spark.read.format("tidelog")
        .options(**{"kafka.bootstrap.servers": node.bootstrap_servers}, subscribe="copies")
        .load()
        .count()
        == 2 * 3 * RECORDS
    ), "one copy by a batch, one by a stream"


def test_the_commands_run_one_after_the_other(node, tmp_path):
    """By themselves and by spark-submit; what they archived is all there."""
    need_java()
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "TIDELOG_BOOTSTRAP_SERVER": node.bootstrap_servers,
        "PYSPARK_SUBMIT_ARGS": f"{CONF} pyspark-shell",
        "SPARK_SUBMIT_OPTS": driver_options(),
    }
    for block in blocks("sh"):
        for line in block.text.splitlines():
            command = here(line, node).partition("  #")[0]
            command = command.replace("/mnt/lake", str(tmp_path / "mnt"))
            run(command, environment, tmp_path)
    for table, kind in TABLES.items():
        verified = verify(open_table(str(tmp_path / table), kind))
        assert (verified.problems, verified.rows) == ([], 3 * RECORDS)


def has_commits(table: Path) -> bool:
    with suppress(NotAnArchive):
        return open_table(str(table), None).last_commit() is not None
    return False


def run(command: str, environment: dict[str, str], folder: Path) -> None:
    """One that runs until Ctrl-C gets it when it has committed something."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    words = shlex.split(command)
    if "archive" in words and not {"--once", "--verify"} & set(words):
        table = folder / words[words.index("--to") + 1]
        deadline = time.monotonic() + SECONDS_MAX
        while not has_commits(table):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            threading.Event().wait(0.1)
        process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, f"{command}\n{said}"
