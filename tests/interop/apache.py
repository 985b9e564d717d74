"""Apache Kafka as oracle: its jars, fetched once by Maven, and its classes, run by Java."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

KAFKA_VERSION = "4.3.1"
JARS = Path(__file__).parents[2] / ".cache" / "jars"

CLIENT_JARS = (
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "org.slf4j:slf4j-api:1.7.36",
    "org.slf4j:slf4j-nop:1.7.36",
    "at.yawk.lz4:lz4-java:1.10.2",
    "org.xerial.snappy:snappy-java:1.1.10.7",
    "com.github.luben:zstd-jni:1.5.6-10",
)


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
