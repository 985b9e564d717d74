"""The end of `tidelog demo`: Spark reads orders as they come, adds them up minute by minute into a
table and into a topic, and archives them.

Needs the extra `tidelog[spark]` and Java; what is missing is said, and the demo ends without it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.connect import connected
from tidelog.cli.demo_clients import PORTS, DemoFailed
from tidelog.cli.demo_orders import COUNT, MS_BETWEEN, ORDERS, TOTALS, OrderDesk, Orders, Total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.cli.demo_node import DemoNode
    from tidelog.cli.demo_orders import Totals
    from tidelog.cli.demo_view import View

CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}
ORDER = "port STRING, cents BIGINT"
WITHIN_MS = "unix_millis(window.start) AS minute_ms"
MERGED_BY = "old.minute_ms = new.minute_ms AND old.port = new.port"


def show_spark(view: View, node: DemoNode) -> None:
    """All of it, or a line that says what to install."""
    try:
        from tidelog.spark.pipelines.session import NoSpark, open_session
    except ImportError as error:
        view.skipped(f"Spark: {error.name} is missing; pip install 'tidelog[spark]'")
        return
    began = time.perf_counter()
    log = node.directory / "spark.log"
    try:
        with view.busy("starting Spark"), stderr_to(log):
            spark = open_session("tidelog demo", "local[2]", CONF)
    except NoSpark as error:
        view.skipped(f"Spark: {error}")
        return
    try:
        seconds = time.perf_counter() - began
        view.done(f"Spark {spark.version} is up after {seconds:.1f} s; no jar was needed")
        orders = Orders(time.time_ns() // 1_000_000 - COUNT * MS_BETWEEN)
        stream(view, node, spark, orders)
        archive(view, node)
    finally:
        spark.stop()


def stream(view: View, node: DemoNode, spark: SparkSession, orders: Orders) -> None:
    """Orders flow in while a query adds them up."""
    totals = TotalsTable(spark, node)
    with connected(node.bootstrap_servers) as client, view.busy("orders flow") as busy:
        desk = OrderDesk(client, orders)
        desk.create_topics()
        query = (
            per_minute(spark, node)
            .writeStream.outputMode("update")
            .foreachBatch(totals.update)
            .option("checkpointLocation", str(node.directory / "checkpoint"))
            .start()
        )
        try:
            desk.start()
            while desk.is_alive():
                desk.join(0.2)
                busy(f"orders flow: {totals.orders:,} of {COUNT:,} are added up")
            if desk.failure is not None:
                raise DemoFailed(f"the orders were not written: {desk.failure}")
            query.processAllAvailable()
            batches = len(query.recentProgress)
        finally:
            desk.stop()
            query.stop()
    expected = orders.totals()
    if totals.read() != expected or totals.read_topic() != expected:
        raise DemoFailed("Spark's sums are not those of the orders that were written")
    view.done(
        f"{COUNT:,} orders flowed through topic {ORDERS} into windows of a minute, in {batches} "
        "micro-batches"
    )
    view.console.print(table_of(expected))
    view.done(f"the same in a Delta table and in topic {TOTALS}, read back and compared")


def per_minute(spark: SparkSession, node: DemoNode) -> DataFrame:
    """How many orders each port had in each minute, and what they came to."""
    from pyspark.sql import functions as f

    orders = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", node.bootstrap_servers)
        .option("subscribe", ORDERS)
        .option("startingOffsets", "earliest")
        .load()
        .select("timestamp", f.from_json(f.col("value").cast("string"), ORDER).alias("order"))
    )
    return (
        orders.withWatermark("timestamp", "10 minutes")
        .groupBy(f.window("timestamp", "1 minute"), "order.port")
        .agg(f.count("*").alias("orders"), f.sum("order.cents").alias("cents"))
        .selectExpr(WITHIN_MS, "port", "orders", "cents")
    )


class TotalsTable:
    """What a micro-batch changed goes into a Delta table, in place of what was there, and into a
    topic, behind it. A sink in Python cannot take updates, but a function can."""

    def __init__(self, spark: SparkSession, node: DemoNode) -> None:
        self.orders = 0
        self._spark = spark
        self._path = str(node.directory / TOTALS)
        self._servers = {"kafka.bootstrap.servers": node.bootstrap_servers}

    def update(self, changed: DataFrame, batch_id: int) -> None:
        from deltalake import DeltaTable, write_deltalake

        changed.persist()
        (
            changed.selectExpr("port AS key", "to_json(struct(*)) AS value")
            .write.format("tidelog")
            .options(**self._servers, topic=TOTALS)
            .mode("append")
            .save()
        )
        rows = changed.toArrow()
        changed.unpersist()
        if not DeltaTable.is_deltatable(self._path):
            write_deltalake(self._path, rows)
        else:
            merge = DeltaTable(self._path).merge(rows, MERGED_BY, "new", "old")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        self.orders = sum(total.orders for total in self.read().values())

    def read(self) -> Totals:
        """The table."""
        from deltalake import DeltaTable

        return {
            _key(row): _total(row) for row in DeltaTable(self._path).to_pyarrow_table().to_pylist()
        }

    def read_topic(self) -> Totals:
        """The newest of each minute and port."""
        reader = self._spark.read.format("tidelog").options(**self._servers, subscribe=TOTALS)
        rows = reader.load().select("partition", "offset", "value").collect()
        values = [json.loads(row.value) for row in sorted(rows, key=lambda row: tuple(row)[:2])]
        return {_key(value): _total(value) for value in values}


def _key(row: dict[str, Any]) -> tuple[int, str]:
    return row["minute_ms"], row["port"]


def _total(row: dict[str, Any]) -> Total:
    return Total(row["orders"], row["cents"])


def table_of(totals: Totals) -> Any:
    """A line a minute: how many orders, and what they came to."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("minute", style="cyan")
    for port in PORTS:
        table.add_column(port, justify="right")
    for minute_ms in sorted({minute for minute, _ in totals}):
        found = [totals.get((minute_ms, port), Total(0, 0)) for port in PORTS]
        clock = time.strftime("%H:%M", time.gmtime(minute_ms // 1000))
        cells = [f"{total.orders:,}: {total.cents / 100:,.0f} €" for total in found]
        table.add_row(clock, *cells)
    return table


def archive(view: View, node: DemoNode) -> None:
    """Topic orders into a Parquet table; then what it covers is proven."""
    from pyspark.sql.datasource import CaseInsensitiveDict

    from tidelog.spark.pipelines.archive import Archive, ArchiveOptions
    from tidelog.spark.pipelines.archive_table import open_table
    from tidelog.spark.pipelines.archive_verify import verify
    from tidelog.spark.pipelines.tasks import SparkRun
    from tidelog.spark.source_options import stream_options

    given = {"kafka.bootstrap.servers": node.bootstrap_servers, "subscribe": ORDERS}
    given["startingOffsets"] = "earliest"
    table = open_table(str(node.directory / "archive"), "parquet")
    options = ArchiveOptions(source=stream_options(CaseInsensitiveDict(given)))
    run = SparkRun("tidelog demo")  # in the session that there is
    with view.busy("archiving"), Archive(options, table, run) as archived:
        archived.archive_next()
    verified = verify(table)
    if verified.problems or verified.rows != COUNT:
        raise DemoFailed(f"the archive is not proven: {verified.problems or verified.rows}")
    view.done(
        f"archived as Parquet: {verified.rows:,} rows, {verified.size / 1e6:.1f} MB in "
        f"{verified.files} files"
    )
    covered = ", ".join(
        f"{partition} {found.start_offset:,} to {found.end_offset:,}"
        for partition, found in sorted(verified.coverage.items())
    )
    view.done(f"coverage proven, no gap and no record twice: {covered}")


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """A JVM that is started meanwhile writes its warnings there for as long as it lives."""
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
