"""What is measured. A case gives rows a second, or milliseconds a micro-batch."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from benchmarks.spark.systems import LARGE, LONG, SMALL, Contestant, Frame, Shape

WRITTEN = Shape(100, 1_000_000)
MICRO_BATCHES = 30
MICRO_BATCH_ROWS = 2_000
QUERY_SECONDS_MAX = 120


class Floor(NamedTuple):
    """The least ratio to the JVM connector's rows a second."""

    on_apache: float
    on_tidelog: float | None = None


class Case(NamedTuple):
    """Rows a second."""

    name: str
    title: str
    shape: Shape
    run: Callable[[Contestant], None]
    floor: Floor
    yardstick: str = ""
    """The case whose figures of the JVM connector this one is compared with, if not its own."""
    is_yardstick_only: bool = False
    """Nobody asked for it but a case that is compared with it."""

    def among(self, taking_part: list[Contestant]) -> list[Contestant]:
        """Those that it is measured with."""
        if self.is_yardstick_only:
            return [contestant for contestant in taking_part if not contestant.is_ours]
        return [
            contestant for contestant in taking_part if contestant.is_ours or not self.yardstick
        ]


def to_noop(frame: Frame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def read(shape: Shape) -> Callable[[Contestant], None]:
    return lambda contestant: to_noop(contestant.read(shape))


def stream(contestant: Contestant) -> None:
    folder = contestant.new_folder()
    query = (
        contestant.read_stream(LONG)
        .writeStream.format("noop")
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    shutil.rmtree(folder)


def to_parquet(contestant: Contestant) -> None:
    folder = contestant.new_folder()
    contestant.read(SMALL).write.parquet(folder)
    shutil.rmtree(folder)


def write(contestant: Contestant) -> None:
    rows = contestant.spark.range(WRITTEN.rows).selectExpr(
        "CAST(CAST(id AS STRING) AS BINARY) AS key", "CAST(repeat('x', 100) AS BINARY) AS value"
    )
    given = {**contestant.servers, "topic": contestant.sink_topic}
    rows.write.format(contestant.format).options(**given).mode("append").save()


def scan(contestant: Contestant) -> None:
    """Without a broker."""
    reader = contestant.spark.read.format(contestant.format)
    to_noop(reader.option("subscribe", contestant.topics[SMALL]).load(contestant.data))


def count(contestant: Contestant) -> None:
    options = {"columns": "offset"} if contestant.is_ours else {}
    assert contestant.read(SMALL, **options).count() == SMALL.rows


CASES = (
    Case("read", "read 100 B into noop", SMALL, read(SMALL), Floor(1.6, 1.3)),
    Case("scan", "scan files of 100 B into noop", SMALL, scan, Floor(2.0), yardstick="read"),
    Case("count", "count() with columns=offset", SMALL, count, Floor(2.5)),
    Case("read-large", "read 1 KiB into noop", LARGE, read(LARGE), Floor(2.0, 1.3)),
    Case("stream", "availableNow, 100 B into noop", LONG, stream, Floor(1.4)),
    Case("parquet", "read 100 B into Parquet", SMALL, to_parquet, Floor(0.9)),
    Case("sink", "write 100 B into a topic", WRITTEN, write, Floor(1.0)),
)


def with_yardsticks(wanted: Collection[str]) -> list[Case]:
    """The cases of these names, and those that they are compared with."""
    yardsticks = {case.yardstick for case in CASES if case.name in wanted}
    return [
        case._replace(is_yardstick_only=case.name not in wanted)
        for case in CASES
        if case.name in wanted or case.name in yardsticks
    ]


MICRO_BATCH = "micro-batch"
MICRO_BATCH_TITLE = f"micro-batch of {MICRO_BATCH_ROWS} rows into noop: ms"
OVERHEAD_MAX = 2.0
"""Of Spark's rate source."""
RATE = "rate source"


def micro_batches(contestant: Contestant) -> dict[str, float]:
    """The median time of a micro-batch, of this source and of the rate source."""
    limited = contestant.read_stream(SMALL, maxOffsetsPerTrigger=str(MICRO_BATCH_ROWS))
    rate = (
        contestant.spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", MICRO_BATCH_ROWS)
        .load()
    )
    found = {}
    for name, frame in ((contestant.name, limited), (RATE, rate)):
        found[name] = micro_batch_ms(frame, contestant.new_folder())
    return found


def micro_batch_ms(frame: Frame, folder: str) -> float:
    query = frame.writeStream.format("noop").option("checkpointLocation", folder).start()
    deadline = time.monotonic() + QUERY_SECONDS_MAX
    try:
        while len(query.recentProgress) < MICRO_BATCHES:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        progress = query.recentProgress
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return statistics.median(total_ms(found) for found in progress[MICRO_BATCHES // 3 :])


def total_ms(progress: Any) -> int:
    milliseconds: int = progress["durationMs"]["triggerExecution"]
    return milliseconds
