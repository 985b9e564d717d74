"""`tidelog pipeline archive` on Spark: killed, stopped, on a cluster of processes.

Each test starts the command as a process of its own, with its own JVM.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.jvm import SHORT_LIVED, driver_options, need_java
from tests.spark.processes import descendants
from tests.unit.spark.test_archive import expected, proven, rows
from tests.unit.spark.topics import Topics
from tidelog.server.forking import with_parent

SECONDS_MAX = 900
"""A machine that does other things too takes minutes for what takes seconds."""
PARTITIONS, RECORDS = 3, 2_000
BIN = Path(sys.executable).parent
SMALL = ("--max-records-per-file", "40")
"""A hundred and fifty tasks in the one batch: something is always half done."""


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


@pytest.fixture
def topic(topics: Topics, name: str) -> str:
    topics.create(name, PARTITIONS)
    for partition in range(PARTITIONS):
        topics.fill(name, range(RECORDS), partition)
    return name


@contextmanager
def started(*command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
        start_new_session=True,
        preexec_fn=with_parent(),
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=SECONDS_MAX)


def config() -> Iterator[str]:
    yield from ("--conf", "spark.driver.bindAddress=127.0.0.1")
    yield from ("--conf", "spark.driver.host=127.0.0.1")
    yield from ("--conf", f"spark.driver.extraJavaOptions={driver_options()}")
    yield from ("--conf", f"spark.executor.extraJavaOptions={SHORT_LIVED}")


def archive(topics: Topics, topic: str, path: Path, *more: str) -> tuple[str, ...]:
    asked = ("--bootstrap-server", topics.bootstrap_servers, "--topic", topic, "--to", str(path))
    return (str(BIN / "tidelog"), "pipeline", "archive", *asked, *more)


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The summary."""
    said, complained = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, complained
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        threading.Event().wait(0.002)


def has_commits(path: Path, count: int) -> bool:
    return len(list(path.glob("_tidelog/commits/*.json"))) >= count


def staged(path: Path) -> list[Path]:
    with suppress(FileNotFoundError):  # a run removes what an earlier one has staged
        return list(path.glob("_tidelog/staging/*/*.parquet"))
    return []


def test_a_driver_killed_in_a_batch_loses_and_doubles_nothing(topics, topic, tmp_path):
    path = tmp_path / "t"
    command = archive(
        topics, topic, path, *SMALL, "--once", "--json", "--master", "local[2,4]", *config()
    )
    with started(*command) as killed:
        wait_until(lambda: len(staged(path)) > 5, killed)
        killed.kill()
        killed.wait(SECONDS_MAX)
        assert not list(path.glob("*.parquet"))
        assert not list(path.glob("_tidelog/commits/*"))
        # Its tasks may still be at work. A worker of this run is killed as well.
        with started(*command) as resumed:
            wait_until(lambda: staged(path) and workers_of(resumed.pid), resumed)
            os.kill(workers_of(resumed.pid)[-1], signal.SIGKILL)
            summary = finished(resumed)
    assert (summary["rows"], summary["lag"]) == (PARTITIONS * RECORDS, 0)
    assert rows(path, "parquet") == expected(*[RECORDS] * PARTITIONS)
    assert proven(path) == []


def workers_of(driver: int) -> list[int]:
    """The processes that run tasks: children of the first, which the JVM has started."""
    return [process for process in descendants(driver) if is_worker(process)][1:]


def is_worker(process: int) -> bool:
    with suppress(OSError):
        return b"pyspark.daemon" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def test_ctrl_c_stops_it_and_it_goes_on_from_there(topics, topic, tmp_path):
    """As SIGTERM does, by which services are stopped."""
    path = tmp_path / "t"
    small = ("--max-records-per-file", "100", "--max-records-per-batch", "500")
    command = archive(topics, topic, path, *small, "--json", "--master", "local[2,4]", *config())
    done = 0
    # A terminal tells all processes of the command, a service its first one.
    for commits, number, tell in ((2, signal.SIGINT, os.killpg), (6, signal.SIGTERM, os.kill)):
        has_begun = partial(has_commits, path, commits)
        with started(*command) as stopped:
            wait_until(has_begun, stopped)
            tell(stopped.pid, number)
            summary = finished(stopped)
        assert summary["interrupted"] is True
        assert not (path / "_tidelog/staging").exists()
        assert proven(path) == []
        assert len(pq.read_table(path)) == done + summary["rows"] < PARTITIONS * RECORDS
        done += summary["rows"]
    with started(*command, "--once") as resumed:
        assert finished(resumed)["rows"] == PARTITIONS * RECORDS - done
    assert rows(path, "parquet") == expected(*[RECORDS] * PARTITIONS)
    prove = (str(BIN / "tidelog"), "pipeline", "archive", "--to", str(path), "--verify", "--json")
    with started(*prove, "--master", "local[2]", *config()) as proving:  # Spark reads the files
        proof = finished(proving)
    assert (proof["proven"], proof["rows"]) == (True, PARTITIONS * RECORDS)


def test_on_a_cluster_of_processes_an_executor_may_die(topics, topic, tmp_path):
    path = tmp_path / "t"
    master = ("--master", "local-cluster[2,1,1024]", *config())
    command = archive(topics, topic, path, *SMALL, *master, "--once", "--json")
    with started(*command) as process:
        wait_until(lambda: len(staged(path)) > 3, process)
        os.kill(executors_of(process)[0], signal.SIGKILL)
        assert finished(process)["rows"] == PARTITIONS * RECORDS
    assert rows(path, "parquet") == expected(*[RECORDS] * PARTITIONS)
    assert proven(path) == []


def test_a_delta_table_outlives_a_killed_driver_and_a_killed_executor(topics, topic, tmp_path):
    path = tmp_path / "t"
    command = archive(topics, topic, path, *SMALL, "--format", "delta", "--once", "--json")
    with started(*command, "--master", "local[2,4]", *config()) as killed:
        wait_until(lambda: len(staged(path)) > 5, killed)
        before = {file.parent for file in staged(path)}
        killed.kill()
        killed.wait(SECONDS_MAX)
        assert not (path / "_delta_log").exists()
        with started(*command, "--master", "local-cluster[2,1,1024]", *config()) as resumed:
            wait_until(lambda: {file.parent for file in staged(path)} - before, resumed)
            os.kill(executors_of(resumed)[0], signal.SIGKILL)
            assert finished(resumed)["rows"] == PARTITIONS * RECORDS
    assert rows(path, "delta") == expected(*[RECORDS] * PARTITIONS)
    assert proven(path) == []


def executors_of(driver: subprocess.Popen[str]) -> list[int]:
    found = [process for process in descendants(driver.pid) if is_executor(process)]
    assert len(found) == 2
    return found


def is_executor(process: int) -> bool:
    with suppress(OSError):
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False
