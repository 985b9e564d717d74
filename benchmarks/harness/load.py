"""The load generator: load.c, built once against the librdkafka inside confluent-kafka."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import confluent_kafka

from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.codec import encode
from tidelog.wire.headers import RequestHeader
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SOURCE = Path(__file__).with_name("load.c")
BUILT = Path(__file__).parents[2] / ".cache" / "bench" / "load"
PRODUCE_VERSION = 10
"""What librdkafka sends."""

SECONDS_MAX = 180
TOUCHED_MEGABYTES = 2000


class LoadFailed(Exception):
    """The generator could not do its work, or a broker refused a record."""


class Load(NamedTuple):
    """What one run of the generator reported."""

    seconds: float
    records: int
    cpu_seconds: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0


def librdkafka() -> Path:
    """The shared library of the wheel, under whatever name its build gave it."""
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka-*.so*"))
    if not found:
        raise LoadFailed(f"{folder} holds no librdkafka: install confluent-kafka from its wheel")
    return found[0]


@cache
def program() -> str:
    if not BUILT.exists() or BUILT.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILT.parent.mkdir(parents=True, exist_ok=True)
        library = librdkafka()
        warnings = ["-Wall", "-Wextra", "-Werror"]
        link = [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
        command = ["gcc", "-O2", "-std=c11", "-pthread", *warnings, "-o", str(BUILT), str(SOURCE)]
        subprocess.run([*command, *link], check=True)
    return str(BUILT)


def run(*args: object) -> Load:
    finished = subprocess.run(
        [program(), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if finished.returncode != 0:
        raise LoadFailed(f"load {' '.join(map(str, args))}: {finished.stdout}{finished.stderr}")
    report = json.loads(finished.stdout)
    return Load(**{name: report[name] for name in Load._fields if name in report})


def touch_memory(replicas: int = 1) -> None:
    """Write to memory just before a run, so that no run pays for what the host took back; nor for
    what the runs before it have written: near a limit the kernel stops writers of dirty pages."""
    os.sync()
    megabytes = TOUCHED_MEGABYTES + 1000 * (replicas - 1)
    subprocess.run([program(), "touch", str(megabytes)], check=True, capture_output=True)


def produce_frame(topic: str, partition: int, record_bytes: int, acks: int) -> bytes:
    """A Produce request of one record, as it goes over the wire."""
    builder = BatchBuilder()
    builder.append(None, b"x" * record_bytes, timestamp=0)
    data = PartitionProduceData(index=partition, records=bytes(builder.build()))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )
    header = RequestHeader(
        request_api_key=0,
        request_api_version=PRODUCE_VERSION,
        correlation_id=1,
        client_id="bench",
    )
    body = encode(header, 2) + encode(request, PRODUCE_VERSION)
    return len(body).to_bytes(4, "big") + body


def error_position(topic: str) -> int:
    """Where the answer to such a request has its error code.

    Before it: size 4, correlation id 4, tags 1, topics 1, name 1 + its bytes, partitions 1,
    index 4.
    """
    return 4 + 4 + 1 + 1 + 1 + len(topic.encode()) + 1 + 4
