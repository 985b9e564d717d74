"""Reads, scans and copies a topic on a cluster of processes; run by test_cluster as a program of
its own, for there may be one session in a process at a time.

    python -m tests.spark.cluster_copy 127.0.0.1:9092 data topic copy folder
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.spark.conftest import start_session
from tests.spark.jvm import SHORT_LIVED, cheap

MASTER = "local-cluster[2,1,1024]"
QUERY_SECONDS_MAX = 240


def main(bootstrap_servers: str, data: str, topic: str, copy: str, folder: str) -> None:
    spark = start_session(
        MASTER,
        spark_local_dir=folder,
        spark_executor_extraJavaOptions=SHORT_LIVED,
        spark_scheduler_minRegisteredResourcesRatio="1",
        **cheap(),
    )
    servers = {"kafka.bootstrap.servers": bootstrap_servers}
    frame = spark.read.format("tidelog").options(**servers, subscribe=topic).load()
    found = {
        "batch": frame.selectExpr("count(DISTINCT partition, offset)").first()[0],
        "executors": frame.rdd.map(lambda row: executor()).distinct().count(),
    }
    files = spark.read.format("tidelog").option("subscribe", topic).load(data)
    found["scan"] = files.selectExpr("count(DISTINCT partition, offset)").first()[0]
    query = (
        spark.readStream.format("tidelog")
        .options(**servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="500")
        .load()
        .select("key", "value", "partition")
        .writeStream.format("tidelog")
        .options(**servers, topic=copy, checkpointLocation=str(Path(folder, "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    found["batches"] = len(query.recentProgress)
    print(json.dumps(found))
    spark.stop()


def executor() -> str:
    """Which one runs this task: each has a working directory of its own."""
    return str(Path.cwd())


if __name__ == "__main__":
    main(*sys.argv[1:])
