"""Apache Kafka as oracle: its jars, fetched once by Maven, and its classes, run by Java."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.interop.process import NodeProcess

KAFKA_VERSION = "4.3.1"
CACHE = Path(__file__).parents[2] / ".cache"
JARS = CACHE / "jars"

CLIENT_JARS = (
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "org.slf4j:slf4j-api:1.7.36",
    "org.slf4j:slf4j-nop:1.7.36",
    "at.yawk.lz4:lz4-java:1.10.2",
    "org.xerial.snappy:snappy-java:1.1.10.7",
    "com.github.luben:zstd-jni:1.5.6-10",
)
BROKER_JARS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.slf4j:slf4j-simple:1.7.36",
)
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelog</groupId>
  <artifactId>apache-kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """\
    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
    </dependency>"""
TOOL_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
"""Of a JVM that lives for seconds: nothing pays for a second compiler or parallel collection."""

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
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
TOOL_SECONDS_MAX = 300


@cache
def maven_jar(artifact: str) -> Path:
    """The jar of `group:artifact:version`."""
    _, name, version = artifact.split(":")
    jar = JARS / f"{name}-{version}.jar"
    if not jar.exists():
        JARS.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                "mvn",
                "--quiet",
                "--batch-mode",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={JARS}",
            ],
            check=True,
            cwd=JARS,
            stdin=subprocess.DEVNULL,
        )
    return jar


def client_classpath() -> list[Path]:
    """What a program needs to use Kafka's Java client with every codec."""
    return [maven_jar(artifact) for artifact in CLIENT_JARS]


def run_java(
    source: Path, *args: str, classpath: list[Path] | None = None, stdin: bytes | None = None
) -> bytes:
    """Runs a program of one source file, and returns what it printed."""
    jars = client_classpath() if classpath is None else classpath
    finished = subprocess.run(
        ["java", "-cp", ":".join(map(str, jars)), str(source), *args],
        input=stdin,
        capture_output=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr.decode(errors="replace")[-4000:]
    return finished.stdout


@cache
def kafka_classpath() -> tuple[Path, ...]:
    """Every jar of Apache Kafka's broker and tools, by one Maven call into .cache/kafka."""
    folder = CACHE / "kafka" / KAFKA_VERSION
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Complete or absent: an interrupted download leaves only a folder of another name.
        with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
            copy_dependencies(Path(partial))
            (Path(partial) / "jars").rename(folder)
    return tuple(sorted(folder.glob("*.jar")))


def copy_dependencies(folder: Path) -> None:
    """Fill folder/jars with the broker's jars and all that they need."""
    dependencies = "\n".join(DEPENDENCY.format(*jar.split(":")) for jar in BROKER_JARS)
    (folder / "pom.xml").write_text(POM.format(dependencies=dependencies))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}"]
    subprocess.run(
        ["mvn", "--quiet", "--batch-mode", *goal], check=True, cwd=folder, stdin=subprocess.DEVNULL
    )


def java_command(class_name: str, *args: str, options: tuple[str, ...] = TOOL_OPTIONS) -> list[str]:
    """How to run a class of Apache Kafka."""
    classpath = ":".join(map(str, kafka_classpath()))
    return ["java", *options, "-cp", classpath, class_name, *args]


def run_tool(class_name: str, *args: str, stdin: str = "", check: bool = True) -> str:
    """What a tool of Apache Kafka printed. With check=False also where it failed, errors included.

    A class without a package is one of org.apache.kafka.tools.
    """
    name = class_name if "." in class_name else f"org.apache.kafka.tools.{class_name}"
    finished = subprocess.run(
        java_command(name, *args, options=(*TOOL_OPTIONS, QUIET)),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    if not check:
        return finished.stdout + finished.stderr
    assert finished.returncode == 0, f"{class_name} {args}: {finished.stdout}{finished.stderr}"
    return finished.stdout


class ApacheKafka(NodeProcess):
    """A node of Apache Kafka, broker and controller in one process.

    An empty directory is formatted by StorageTool; one that holds data, of Tidelog too, is started
    as it is.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = BROKER_OPTIONS,
    ) -> None:
        super().__init__(directory, properties=properties)
        self.java_options = java_options

    def command(self, config: str) -> list[str]:
        return java_command("kafka.Kafka", config, options=(*self.java_options, *LOGGED))

    def format(self) -> None:
        run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self.write_config())
