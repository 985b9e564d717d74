"""franz-go, the Go client that follows the protocol most closely; driven through go/main.go."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jars import CACHE
from tests.interop.suite import (
    SECONDS_MAX,
    Acks,
    Begin,
    Client,
    ClientSuite,
    End,
    Offset,
    Received,
    Record,
    Start,
    Timestamp,
)

pytestmark = pytest.mark.interop
SOURCE = Path(__file__).with_name("go")


@cache
def program() -> Path:
    """Built once a run; Go's own cache makes the next run's build a matter of milliseconds."""
    built = CACHE / "go" / "interop"
    command = ["go", "build", "-o", str(built), "."]
    finished = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return built


def as_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def to_json(record: Record) -> str:
    headers = [{"key": key, "value": as_text(value)} for key, value in record.headers]
    fields = {
        "key": as_text(record.key),
        "value": as_text(record.value),
        "headers": headers,
        "timestamp_ms": record.timestamp_ms,
    }
    return json.dumps(fields)


def from_json(line: str) -> Received:
    fields: dict[str, Any] = json.loads(line)
    headers = tuple((h["key"], as_bytes(h["value"])) for h in fields["headers"])
    key, value = as_bytes(fields["key"]), as_bytes(fields["value"])
    return Received(fields["offset"], Record(value, key, headers, fields["timestamp_ms"]))


class FranzGo(Client):
    def command(self, name: str, *args: object) -> list[str]:
        return [str(program()), name, self.bootstrap_servers, *map(str, args)]

    def run(self, name: str, *args: object, stdin: str = "") -> list[str]:
        finished = subprocess.run(
            self.command(name, *args),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS_MAX,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.splitlines()

    def create_topic(self, topic: str, partitions: int) -> None:
        self.run("create", topic, partitions)

    def produce(
        self, topic: str, partition: int, records: Sequence[Record], acks: Acks, codec: str
    ) -> list[int | None]:
        lines = "\n".join(map(to_json, records))
        offsets = self.run("produce", topic, partition, acks, codec, stdin=lines)
        return [None if acks == "0" else int(offset) for offset in offsets]

    def consume(self, topic: str, partition: int, start: Start, count: int) -> list[Received]:
        match start:
            case Begin():
                place = "begin"
            case Offset(offset):
                place = str(offset)
            case Timestamp(timestamp_ms):
                place = f"@{timestamp_ms}"
            case End(then):
                return self.consume_from_the_end(topic, partition, count, then)
        return [from_json(line) for line in self.run("consume", topic, partition, place, count)]

    def consume_from_the_end(
        self, topic: str, partition: int, count: int, then: Any
    ) -> list[Received]:
        """The program says where the end is; only then is more produced."""
        command = self.command("consume", topic, partition, "end", count)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline()
            then()
            output, _ = consumer.communicate(timeout=2 * SECONDS_MAX)
        assert consumer.returncode == 0
        return [from_json(line) for line in output.splitlines()]

    def end_offset(self, topic: str, partition: int) -> int:
        return int(self.run("end", topic, partition)[0])


class TestFranzGo(ClientSuite):
    library = FranzGo
