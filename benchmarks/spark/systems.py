"""Who is measured: a connector on a node, in one Spark session that all of them share."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness.load import run
from benchmarks.harness.system import PARTITIONS, System
from tests.interop.apache import ApacheKafka
from tests.interop.process import NodeProcess
from tests.interop.spark_jars import connector_jars
from tests.interop.tidelog_node import TidelogNode
from tests.spark.conftest import start_session

Spark = Any
Frame = Any

BATCH_BYTES = 16_384
"""Kafka's default, so that is what most logs are made of."""


class Shape(NamedTuple):
    """Of a topic that is read."""

    value_bytes: int
    rows: int


SMALL = Shape(100, 3_000_000)
LARGE = Shape(1024, 600_000)
LONG = Shape(100, 5_000_000)
"""For streams. A source in Python begins by starting an interpreter, which has nothing to do with
how fast it reads."""
DRIVER_MEMORY = "2g"

OURS, ON_APACHE, ON_TIDELOG = "tidelog", "JVM on Apache", "JVM on Tidelog"


class Kind(NamedTuple):
    """A Spark format on somebody's node."""

    format: str
    node: type[NodeProcess]


KINDS = {
    OURS: Kind("tidelog", TidelogNode),
    ON_APACHE: Kind("kafka", ApacheKafka),
    ON_TIDELOG: Kind("kafka", TidelogNode),
}


class Filled(NamedTuple):
    """A node whose topics are there to be read."""

    system: System
    topics: dict[Shape, str]


class Contestant:
    """Reads and writes the topics of one node by one connector."""

    def __init__(self, name: str, filled: Filled, spark: Spark, folder: Path) -> None:
        self.name = name
        self.format = KINDS[name].format
        self.system = filled.system
        self.topics = filled.topics
        self.spark = spark
        # Written to again and again: Java's producer, which Spark keeps, stumbles over a topic
        # that was deleted.
        self.sink_topic = self.system.create_topic()
        self._folders = (str(folder / f"{self.format}-{n}") for n in itertools.count())

    @property
    def is_ours(self) -> bool:
        return self.name == OURS

    @property
    def servers(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.system.node.bootstrap_servers}

    @property
    def data(self) -> str:
        """The node's files."""
        return str(self.system.node.log_dir)

    def read(self, shape: Shape, **options: str) -> Frame:
        """A topic, as a batch."""
        return self._load(self.spark.read, shape, options)

    def read_stream(self, shape: Shape, **options: str) -> Frame:
        """From its beginning."""
        given = {"startingOffsets": "earliest", **options}
        return self._load(self.spark.readStream, shape, given)

    def _load(self, reader: Any, shape: Shape, options: dict[str, str]) -> Frame:
        given = {**self.servers, "subscribe": self.topics[shape], **options}
        return reader.format(self.format).options(**given).load()

    def new_folder(self) -> str:
        """The name of a directory that does not exist yet."""
        return next(self._folders)


@contextmanager
def contestants(names: list[str], shapes: set[Shape]) -> Iterator[list[Contestant]]:
    """Their nodes run and hold the topics."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-")))
        filled: dict[type[NodeProcess], Filled] = {}
        for kind in {KINDS[name].node for name in names}:
            filled[kind] = fill(System(kind.__name__, stack.enter_context(kind())), shapes)
        spark = start_session(
            spark_jars=",".join(map(str, connector_jars())),
            spark_driver_memory=DRIVER_MEMORY,
            spark_ui_showConsoleProgress="false",
            spark_local_dir=str(folder / "local"),
        )
        stack.callback(spark.stop)
        yield [
            Contestant(name, filled[KINDS[name].node], spark, folder / str(number))
            for number, name in enumerate(names)
        ]


def fill(system: System, shapes: set[Shape]) -> Filled:
    """Write the topics that are read."""
    topics = {}
    servers = system.node.bootstrap_servers
    for shape in sorted(shapes):
        topics[shape] = name = system.create_topic()
        run("produce", servers, name, PARTITIONS, *shape, BATCH_BYTES, 1, 5, 1)
    return Filled(system, topics)
