"""Apache Kafka as oracle: its nodes and its tools."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.interop.jars import kept
from tests.interop.jvm import TOOL_OPTIONS, cached, classpath, programs
from tests.interop.process import NodeProcess

BROKER_OPTIONS = (
    *("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""Heap and collector as Kafka's own start scripts set them for a broker."""

LOGGED = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def run_tool(class_name: str, *args: str, stdin: str = "", check: bool = True) -> str:
    """What a tool of Apache Kafka printed. With check=False also where it failed, errors included.

    A class without a package is one of org.apache.kafka.tools.
    """
    name = class_name if "." in class_name else f"org.apache.kafka.tools.{class_name}"
    finished = programs().run(name, *args, stdin=stdin.encode())
    printed, complained = finished.stdout.decode(), finished.stderr.decode()
    if not check:
        return printed + complained
    assert finished.code == 0, f"{class_name} {args}: {printed}{complained}"
    return printed


class ApacheKafka(NodeProcess):
    """A node of Apache Kafka, broker and controller in one process, as an operator starts it.

    An empty directory is formatted by StorageTool; one that holds data, of Tidelog too, is started
    as it is.
    """

    java_options: tuple[str, ...] = BROKER_OPTIONS

    def command(self, config: str) -> list[str]:
        options = (*self.java_options, *LOGGED)
        return ["java", *options, "-cp", classpath(), "kafka.Kafka", config]

    def format(self) -> None:
        run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self.write_config())


class ApacheNode(ApacheKafka):
    """The same in a third of the CPU time, for tests: it lives for seconds."""

    def __init__(
        self, directory: Path | None = None, *, properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory, properties=properties)
        self.java_options = (*TOOL_OPTIONS, f"-XX:SharedArchiveFile={broker_classes()}")


@cache
def broker_classes() -> Path:
    """A broker's classes as they are in memory, of one that has started and stopped."""

    def archive(new: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            node = ApacheKafka(Path(folder))
            node.java_options = (*TOOL_OPTIONS, f"-XX:ArchiveClassesAtExit={new}")
            node.start()
            node.stop()

    return kept(cached("broker", classpath().encode()), archive)
