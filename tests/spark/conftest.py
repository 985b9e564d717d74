"""One Spark session and one node for all tests that need a JVM: it takes ten seconds to start.

`make test` runs them; without Java 17 or newer they are skipped, and say what to install.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.tidelog_node import TidelogNode
from tests.spark.jvm import cheap, need_java
from tests.unit.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


def start_session(master: str = "local[2]", **config: str) -> SparkSession:
    """A new session; there may be one in a process at a time. Underlines in names are dots."""
    need_java()
    from pyspark.sql import SparkSession

    # Spark starts its Python workers by this name: it must be the interpreter that has tidelog.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in {**CONFIG, **config}.items():
        builder = builder.config(name.replace("_", "."), value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    local, warehouse = str(folder / "local"), str(folder / "warehouse")
    session = start_session(spark_local_dir=local, spark_sql_warehouse_dir=warehouse, **cheap())
    yield session
    session.stop()


@pytest.fixture(scope="session")
def topics() -> Iterator[Topics]:
    """A node that all tests share; each has topics of its own."""
    with TidelogNode() as node:
        made = Topics(node.bootstrap_servers)
        yield made
        made.client.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A topic's name, of the test's own."""
    return request.node.name.removeprefix("test_")[:100]
