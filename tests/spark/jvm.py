"""What makes the JVMs of Spark's tests cheap. Run as a program it archives Spark's classes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.interop.jars import kept
from tests.interop.jvm import cached
from tests.interop.tools import TOOLS, complaint

ROOT = Path(__file__).parents[2]
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a JVM that lives for minutes: nothing pays for a second compiler or parallel collection."""


def need_java() -> None:
    """Skips a test where there is none, and says what to install."""
    (java,) = (tool for tool in TOOLS if tool.command == "java")
    missing = complaint(java)
    if missing is not None:
        pytest.skip(missing)


@cache
def driver_options() -> str:
    """Of a driver, with Spark's classes as they were in the memory of one that ran a query."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars = Path(spark.origin).parent / "jars"

    def archive(new: Path) -> None:
        command = [sys.executable, "-m", "tests.spark.jvm", str(new)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    path = kept(cached("spark", f"{jars} {jars.stat().st_mtime_ns}".encode()), archive)
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={path}"


def cheap() -> dict[str, str]:
    """How a test's session is configured, beside what each has."""
    need_java()
    return {"spark.driver.extraJavaOptions": driver_options()}


def archive_classes(path: str) -> None:
    """Of a session that does a little of what tests do; its JVM writes them when it ends."""
    from pyspark import SparkContext

    from tests.spark.conftest import start_session

    options = {"spark.driver.extraJavaOptions": f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={path}"}
    with tempfile.TemporaryDirectory() as folder:
        session = start_session(spark_local_dir=f"{folder}/local", **options)
        rows = f"{folder}/rows"
        session.range(10).selectExpr("id + 1 AS n").write.parquet(rows)
        assert session.read.parquet(rows).groupBy("n").count().count() == 10
        query = (
            session.readStream.schema("n BIGINT")
            .parquet(rows)
            .writeStream.format("noop")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        session.stop()
        jvm = SparkContext._gateway.proc  # type: ignore[union-attr]
        jvm.stdin.close()
        jvm.wait()


if __name__ == "__main__":
    archive_classes(sys.argv[1])
