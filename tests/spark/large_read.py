"""Reads a topic that is larger than its worker's memory. A program of its own, run by test_memory:
Spark limits a worker's memory when it starts it.

    python -m tests.spark.large_read 127.0.0.1:9092 topic folder
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.spark.conftest import start_session
from tests.spark.jvm import cheap
from tests.spark.processes import descendants

WORKER_MEGABYTES = 1024
QUERY_SECONDS_MAX = 600


class Worker(NamedTuple):
    """A process that runs tasks: Spark limits their memory, and nobody else's."""

    peak_megabytes: int
    """What it had resident at most."""
    cpu_seconds: float


def workers() -> dict[int, Worker]:
    """Those that live, by process."""
    found = {}
    for process in descendants(os.getpid()):
        with suppress(OSError):
            limit, _ = resource.prlimit(process, resource.RLIMIT_AS)
            status = Path(f"/proc/{process}/status").read_text()
            ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
            if limit == WORKER_MEGABYTES << 20:
                (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
                seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
                found[process] = Worker(int(peak) >> 10, seconds)
    return found


def main(bootstrap_servers: str, topic: str, folder: str) -> None:
    spark = start_session(
        "local[1]",
        spark_local_dir=folder,
        spark_executor_pyspark_memory=f"{WORKER_MEGABYTES}m",
        **cheap(),
    )
    given = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
    frame = spark.read.format("tidelog").options(**given).load()
    rows, size = frame.selectExpr("count(*)", "sum(length(value))").first()
    batch = workers()
    query = (
        spark.readStream.format("tidelog")
        .options(**given, startingOffsets="earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(Path(folder, "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    streamed = sum(progress.numInputRows for progress in query.recentProgress)
    found = {"rows": rows, "bytes": size, "streamed": streamed, "seen": [batch, workers()]}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
