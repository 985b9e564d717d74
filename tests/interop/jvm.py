"""Java as cheap as it gets: one JVM that runs program after program, and classes kept on disk as
they are in memory."""

from __future__ import annotations

import atexit
import hashlib
import struct
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.interop.jars import CACHE, kafka_classpath, kept
from tidelog.server.forking import with_parent

SOURCES = Path(__file__).parent
TOOL_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
"""Of a JVM that lives for minutes: nothing pays for a second compiler or parallel collection."""

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
PROGRAM_SECONDS_MAX = 300
NUMBER = struct.Struct(">i")


def cached(name: str, *made_of: bytes) -> Path:
    """Where to keep what this Java made of something."""
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    digest = hashlib.sha256(b"\0".join((version, *made_of)))
    return CACHE / "classes" / f"{name}-{digest.hexdigest()[:16]}"


def classpath(*more: Path) -> str:
    """Apache Kafka's, after what else is needed."""
    return ":".join(map(str, (*more, *kafka_classpath())))


@cache
def compiled() -> Path:
    """The classes of the programs beside this file."""
    sources = sorted(SOURCES.glob("*.java"))
    folder = cached("programs", classpath().encode(), *(s.read_bytes() for s in sources))

    def compile_into(new: Path) -> None:
        command = ["javac", "-d", str(new), "-cp", classpath(), *map(str, sources)]
        subprocess.run(command, check=True)

    return kept(folder, compile_into)


class Finished(NamedTuple):
    """What a program printed, and how it ended."""

    code: int
    stdout: bytes
    stderr: bytes


class Programs:
    """A JVM in which Programs.java runs what it is asked to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["java", *TOOL_OPTIONS, QUIET, "-cp", classpath(compiled()), "Programs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=with_parent(),
        )

    def run(self, class_name: str, *arguments: str, stdin: bytes) -> Finished:
        texts = [argument.encode() for argument in arguments]
        request = [framed(class_name.encode()), NUMBER.pack(len(texts))]
        request += [*map(framed, texts), framed(stdin)]
        timer = threading.Timer(PROGRAM_SECONDS_MAX, self.process.kill)
        timer.start()
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(b"".join(request))
            self.process.stdin.flush()
            code = NUMBER.unpack(self._read(NUMBER.size))[0]
            return Finished(code, self._text(), self._text())
        except BaseException as error:
            error.add_note(f"{class_name} {arguments}")
            self.close()
            raise
        finally:
            timer.cancel()

    def _text(self) -> bytes:
        return self._read(NUMBER.unpack(self._read(NUMBER.size))[0])

    def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(size)
        if len(data) < size:
            raise RuntimeError(f"the JVM ended, or was ended after {PROGRAM_SECONDS_MAX} s")
        return data

    def close(self) -> None:
        programs.cache_clear()
        self.process.kill()
        self.process.communicate()


def framed(data: bytes) -> bytes:
    return NUMBER.pack(len(data)) + data


@cache
def programs() -> Programs:
    """The one that all tests share; it ends with them."""
    started = Programs()
    atexit.register(started.close)
    return started


def run_program(class_name: str, *arguments: str, stdin: bytes = b"") -> bytes:
    """What one of the programs beside this file prints."""
    finished = programs().run(class_name, *arguments, stdin=stdin)
    assert finished.code == 0, finished.stderr.decode(errors="replace")[-4000:]
    return finished.stdout
