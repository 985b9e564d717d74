"""kcat as Debian ships it: a librdkafka that is years older than confluent-kafka's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.suite import (
    CODECS,
    HUNDRED_THOUSAND,
    MEGABYTE,
    SECONDS_MAX,
    eventually,
    new_topic,
)

pytestmark = pytest.mark.interop
Kcat = Callable[..., str]
SHOWN = "%o|%p|%h|%k|%s\n"


@pytest.fixture
def kcat(bootstrap_servers: str) -> Kcat:
    def run(*args: str, stdin: str = "") -> str:
        finished = subprocess.run(
            ["kcat", "-b", bootstrap_servers, "-m", str(SECONDS_MAX), *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS_MAX,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return run


def metadata(kcat: Kcat, *args: str) -> dict[str, Any]:
    found = json.loads(kcat("-L", "-J", *args))
    assert isinstance(found, dict)
    return found


def test_it_lists_the_broker_and_creates_topics(kcat: Kcat) -> None:
    topic = new_topic()
    assert [broker["id"] for broker in metadata(kcat)["brokers"]] == [1]
    kcat("-P", "-t", topic, stdin="one\n")

    def is_led() -> bool:
        (found,) = metadata(kcat, "-t", topic)["topics"]
        return [(p["partition"], p["leader"]) for p in found["partitions"]] == [(0, 1)]

    eventually(is_led)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_and_codec(kcat: Kcat, acks: str) -> None:
    topic = new_topic()
    lines = [f"key {i}|value {i}" for i in range(50)]
    for number, codec in enumerate(CODECS):
        send = ["-P", "-t", topic, "-p", "0", "-K", "|", "-z", codec]
        kcat(*send, "-X", f"acks={acks}", stdin="".join(f"{line}\n" for line in lines))
        first = number * len(lines)
        read = ["-C", "-t", topic, "-p", "0", "-o", str(first), "-c", "50", "-X", "check.crcs=true"]
        output = kcat("-q", *read, "-f", SHOWN).splitlines()
        assert output == [f"{first + i}|0||{line}" for i, line in enumerate(lines)]


def test_odd_records(kcat: Kcat, tmp_path: Path) -> None:
    topic = new_topic()
    large = tmp_path / "large"
    large.write_text("m" * MEGABYTE)
    # -Z makes an empty value or key null; without it they are empty.
    kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-Z", stdin=":null key\nnull value:\n")
    kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-H", "a=1", "-H", "b=", stdin="empty:\n")
    kcat("-P", "-t", topic, "-p", "0", "-X", "message.max.bytes=2000000", str(large))
    read = ["-C", "-q", "-t", topic, "-p", "0", "-o", "beginning", "-c", "4"]
    output = kcat(*read, "-f", "%o|%h|%K|%k|%S|%s\n").splitlines()
    assert output == [
        "0||-1||8|null key",
        "1||10|null value|-1|",
        "2|a=1,b=|5|empty|0|",
        f"3||-1||{MEGABYTE}|{'m' * MEGABYTE}",
    ]


def test_offset_end_and_timestamp(kcat: Kcat) -> None:
    topic = new_topic()
    kcat("-P", "-t", topic, "-p", "0", stdin="".join(f"{i}\n" for i in range(20)))
    read = ["-C", "-q", "-t", topic, "-p", "0", "-e"]
    stamped = [line.split() for line in kcat(*read, "-f", "%s %T\n").splitlines()]
    assert [value for value, _ in stamped] == [str(i) for i in range(20)]
    assert kcat(*read, "-o", "-3").split() == ["17", "18", "19"]
    assert kcat(*read, "-o", "end") == ""
    time_ms = stamped[7][1]
    expected = [value for value, stamp in stamped if int(stamp) >= int(time_ms)]
    assert kcat(*read, "-o", f"s@{time_ms}").split() == expected
    # Query mode asks for offsets alone; -1 is the end.
    assert f"{topic} [0] offset 20" in kcat("-Q", "-t", f"{topic}:0:-1")


def test_hundred_thousand_lines(kcat: Kcat) -> None:
    topic = new_topic()
    lines = [f"{i}:{'x' * (i % 100)}" for i in range(HUNDRED_THOUSAND)]
    idempotent = ["-X", "enable.idempotence=true", "-z", "lz4"]
    kcat("-P", "-t", topic, "-p", "0", *idempotent, stdin="".join(f"{line}\n" for line in lines))
    received = kcat("-C", "-q", "-t", topic, "-p", "0", "-e", "-o", "beginning").splitlines()
    for number, line in enumerate(received):
        assert line == lines[number]
    assert len(received) == HUNDRED_THOUSAND
