"""Reads a topic that is larger than its worker's memory. A program of its own, run by test_memory:
Spark limits a worker's memory when it starts it.

    python -m tests.spark.large_read 127.0.0.1:9092 topic folder
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from tests.spark.conftest import start_session
from tests.spark.jvm import cheap

WORKER_MEGABYTES = 1024
QUERY_SECONDS_MAX = 600


def limit_and_peak(_: int) -> tuple[int, int]:
    """Of a worker: what it may map, and what it had resident at most, in megabytes."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit >> 20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


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
    ((limit, peak),) = spark.sparkContext.parallelize([0], 1).map(limit_and_peak).collect()
    found = {"rows": rows, "bytes": size, "streamed": streamed, "limit": limit, "peak": peak}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
