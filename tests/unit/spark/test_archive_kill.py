"""kill -9 of an archive's driver, at any moment and again and again: each record is there once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.unit.spark.killed_archive import OFFSETS_PER_BATCH
from tests.unit.spark.test_archive import expected, proven, rows
from tests.unit.spark.topics import Topics

from tidelog.server.forking import with_parent

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PARTITIONS, RECORDS = 3, 1_000
KILLS = 12
BATCHES_BETWEEN = (2, 6)
BATCH_SECONDS = 0.03
"""About what one takes: a kill comes anywhere within it."""
SECONDS_MAX = 300
COMMITS = {"parquet": "_tidelog/commits/*.json", "delta": "_delta_log/*.json"}


@pytest.mark.parametrize("kind", sorted(COMMITS))
def test_a_driver_killed_again_and_again_loses_and_doubles_nothing(topics: Topics, tmp_path, kind):
    rng = random.Random(11)
    topic, path = f"killed-at-random-{kind}", tmp_path / "t"
    topics.create(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        topics.fill(topic, range(RECORDS), partition)
    command = [sys.executable, "-m", "tests.unit.spark.killed_archive", topics.bootstrap_servers]
    command += [topic, str(path), kind]
    whole = expected(*[RECORDS] * PARTITIONS)

    def committed() -> int:
        return len(list(path.glob(COMMITS[kind])))

    for number in range(KILLS):
        until = committed() + rng.randint(*BATCHES_BETWEEN)
        with subprocess.Popen(command, cwd=ROOT, preexec_fn=with_parent()) as driver:
            deadline = time.monotonic() + SECONDS_MAX
            while committed() < until:
                assert driver.poll() is None, "it has batches for many kills"
                assert time.monotonic() < deadline
            # Every other one at once: the commit is there, and what it moves may not be.
            if number % 2:
                threading.Event().wait(rng.uniform(0, BATCH_SECONDS))
            driver.kill()
        seen = rows(path, kind)
        assert len(seen) == len(set(seen)), "nobody reads a record twice, at any time"
        assert set(seen) <= set(whole)
    assert len(seen) < len(whole) - OFFSETS_PER_BATCH
    subprocess.run(command, cwd=ROOT, check=True, timeout=SECONDS_MAX)
    assert rows(path, kind) == whole
    assert proven(path) == []
    assert {file.name for file in (path / "_tidelog").iterdir()} <= {"commits", "lock"}
