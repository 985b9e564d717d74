"""Jars, fetched once by Maven into .cache."""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
KAFKA_VERSION = "4.3.1"
BROKER_JARS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.slf4j:slf4j-simple:1.7.36",
)
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelog</groupId>
  <artifactId>jars</artifactId>
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
      <version>{}</version>{}
    </dependency>"""
ALONE = """
      <exclusions>
        <exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>"""


def kept(path: Path, make: Callable[[Path], object]) -> Path:
    """A file or folder that is made once: it is complete or absent, although the work may be
    interrupted, and of several processes that want it one makes it while the others wait."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                new = Path(folder) / path.name
                make(new)
                new.rename(path)
    return path


def fetched(folder: Path, artifacts: tuple[str, ...], *, alone: bool = False) -> tuple[Path, ...]:
    """The jars of each `group:artifact:version` by one Maven call, alone or with all they need."""

    def fetch(new: Path) -> None:
        rest = ALONE if alone else ""
        dependencies = "\n".join(DEPENDENCY.format(*jar.split(":"), rest) for jar in artifacts)
        pom = new.with_name("pom.xml")
        pom.write_text(POM.format(dependencies=dependencies))
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={new}"]
        command = ["mvn", "--quiet", "--batch-mode", *goal]
        subprocess.run(command, check=True, cwd=pom.parent, stdin=subprocess.DEVNULL)

    return tuple(sorted(kept(folder, fetch).glob("*.jar")))


@cache
def kafka_classpath() -> tuple[Path, ...]:
    """Every jar of Apache Kafka's broker and tools."""
    return fetched(CACHE / "kafka" / KAFKA_VERSION, BROKER_JARS)


def kafka_jar(name: str) -> Path:
    """One of them, as `kafka-clients`."""
    return kafka_classpath()[0].with_name(f"{name}-{KAFKA_VERSION}.jar")
