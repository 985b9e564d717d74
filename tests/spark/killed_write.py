"""A write that lasts until it is told to stop; run by test_sink_kill as a program of its own, for
it needs a session in which a failed task is tried again.

    python -m tests.spark.killed_write 127.0.0.1:9092 topic folder
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.spark.conftest import start_session
from tests.spark.jvm import cheap

TASKS = 2
FAILS_AFTER = 8_000
ROWS = 200


def numbered(folder: str) -> Callable[[Iterator[int]], Iterator[tuple[str, int]]]:
    """Numbered rows, until there is a file `stop`; then a file says how many and of which attempt.
    The last task fails at first."""

    def rows(_: Iterator[int]) -> Iterator[tuple[str, int]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task, attempt = context.partitionId(), context.attemptNumber()
        number = 0
        while not Path(folder, "stop").exists():
            threading.Event().wait(0.005)
            if number >= FAILS_AFTER and task == TASKS - 1 and not attempt:
                raise RuntimeError("the executor is lost")
            for _ in range(ROWS):
                yield f"{task} {number}", task
                number += 1
        Path(folder, f"written-{task}").write_text(f"{number} {attempt}")

    return rows


def main(bootstrap_servers: str, topic: str, folder: str) -> None:
    spark = start_session(
        f"local[{TASKS},3]",
        spark_local_dir=folder,
        spark_sql_execution_arrow_maxRecordsPerBatch=str(ROWS),
        **cheap(),
    )
    rows = spark.sparkContext.parallelize(range(TASKS), TASKS).mapPartitions(numbered(folder))
    frame = spark.createDataFrame(rows, "value string, partition int", verifySchema=False)
    writer = frame.write.format("tidelog").mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", bootstrap_servers)
    writer.option("kafka.linger.ms", "0").option("kafka.retry.backoff.ms", "20").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
