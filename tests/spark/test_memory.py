"""A worker of 1 GB reads a topic that is larger."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.spark.large_read import WORKER_MEGABYTES
from tidelog.client import TopicPartition
from tidelog.client.produce import produce
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

SECONDS_MAX = 900
SECONDS_MIN = 0.5
"""Of the processor's time: nobody makes a gigabyte of Arrow columns in less."""
RECORDS, VALUE_BYTES = 1_000, 1_024
BATCHES = 1_300
"""Together 1.3 GB, once they are decompressed: as they lie in the log they take little."""


def test_a_topic_larger_than_a_workers_memory(topics, name, tmp_path):
    topics.create(name)
    builder = BatchBuilder()
    for number in range(RECORDS):
        builder.append(None, b"%1024d" % number, timestamp=number)
    batch = bytes(builder.build(compression=Compression.ZSTD))
    for _ in range(BATCHES):
        topics.client.run(produce, {TopicPartition(name, 0): bytearray(batch)})
    command = [sys.executable, "-m", "tests.spark.large_read", topics.bootstrap_servers, name]
    finished = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    found = json.loads(finished.stdout.splitlines()[-1])
    rows = RECORDS * BATCHES
    assert (found["rows"], found["bytes"], found["streamed"]) == (rows, rows * VALUE_BYTES, rows)
    assert found["bytes"] >> 20 > WORKER_MEGABYTES
    for seen in found["seen"]:  # after the batch, and after the stream
        peaks, seconds = zip(*seen.values(), strict=True)
        assert max(peaks) < WORKER_MEGABYTES / 3
        assert max(seconds) > SECONDS_MIN, "one of them has read"
