"""The demo runs a real node, shows that all is right, fails where something is not, and leaves
nothing behind."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tidelog.cli import demo_clients, demo_node
from tidelog.cli.demo_clients import (
    DemoFailed,
    LibrdkafkaClient,
    OwnClient,
    Received,
    reading,
)
from tidelog.cli.demo_cluster import produce_and_kill
from tidelog.cli.main import tidelog
from tidelog.wire.batch import RecordBatch, read_batch

COLUMNS = 100
SECONDS_MAX = 60
COMMAND = [sys.executable, "-c", "from tidelog.cli import main; main()", "demo"]


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Where the demo keeps its data: what it leaves behind can be seen."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def demo(records: int) -> Result:
    arguments = ["demo", "--no-spark", "--records", str(records)]
    return CliRunner().invoke(tidelog, arguments, env={"COLUMNS": str(COLUMNS)})


def table_rows(output: str) -> list[list[int]]:
    """The numbers of each line that is about one partition."""
    lines = re.findall(r"^tides-\d +(.*)$", output, re.MULTILINE)
    return [[int(number.replace(",", "")) for number in line.split()] for line in lines]


def test_the_demo_shows_offsets_moving_and_cleans_up(temporary):
    answer = demo(5_000)
    assert answer.exit_code == 0, answer.output
    assert "confluent-kafka" in answer.output
    assert "consume 5,000 of 5,000" in answer.output
    rows = table_rows(answer.output)
    produced, consumed, deleted = rows[:3], rows[3:6], rows[6:]
    for row, positions in ((produced, 0), (consumed, 5_000), (deleted, 5_000)):
        start, watermark, end, position = (sum(column) for column in zip(*row, strict=True))
        assert (watermark, end, position) == (5_000, 5_000, positions)
        assert start == (sum(r[1] // 2 for r in row) if row is deleted else 0)
    assert max(map(len, answer.output.splitlines())) <= COLUMNS
    assert list(temporary.iterdir()) == []


class FakeLibrdkafka:
    """A producer of librdkafka; the cluster behind it acknowledges everything whenever it is asked,
    or a record at a time and only if it is waited for."""

    def __init__(self, is_prompt: bool) -> None:
        self.is_prompt = is_prompt
        self.waiting: deque[Callable[[None, None], None]] = deque()

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any) -> None:
        self.waiting.append(on_delivery)

    def poll(self, seconds: float) -> None:
        for _ in range(len(self.waiting) if self.is_prompt else min(1, len(self.waiting))):
            if seconds or self.is_prompt:
                self.waiting.popleft()(None, None)

    def flush(self, seconds: float) -> int:
        self.poll(seconds)
        return len(self)

    def purge(self) -> None: ...

    def __len__(self) -> int:
        return len(self.waiting)


class FakeProducer:
    """One of ours; the cluster behind it acknowledges everything when it is waited for."""

    def __init__(self, on_acknowledged: Callable[[None, int, None], None]) -> None:
        self.on_acknowledged = on_acknowledged
        self.waiting: list[int] = []

    def send(self, partition: object, batch: bytearray) -> None:
        header = read_batch(memoryview(batch), 0, len(batch))
        assert isinstance(header, RecordBatch)
        self.waiting.append(header.record_count)

    def flush(self) -> None:
        while self.waiting:
            self.on_acknowledged(None, self.waiting.pop(), None)

    def __len__(self) -> int:
        return sum(self.waiting)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 10, 99, 1_000, 3_001, 30_000])
@pytest.mark.parametrize("kind", ["prompt librdkafka", "slow librdkafka", "own"])
def test_the_leader_is_killed_while_records_are_on_their_way(monkeypatch, kind, count):
    made: list[Any] = []

    def kept(producer: Any) -> Any:
        made.append(producer)
        return producer

    client: Any
    if kind == "own":
        monkeypatch.setattr(
            demo_clients, "Producer", lambda on_acknowledged: kept(FakeProducer(on_acknowledged))
        )
        client = OwnClient(SimpleNamespace(run=lambda call, *with_: call(*with_)))  # type: ignore[arg-type]
    else:
        is_prompt = kind.startswith("prompt")
        monkeypatch.setattr("confluent_kafka.Producer", lambda to: kept(FakeLibrdkafka(is_prompt)))
        client = LibrdkafkaClient("h:1")
    on_their_way: list[int] = []
    cluster: Any = SimpleNamespace(kill=lambda node: on_their_way.append(len(made[0])))
    acknowledged, _ = produce_and_kill(cluster, client, leader=1, count=count)
    assert count // 3 <= acknowledged < count
    (unacknowledged,) = on_their_way
    assert unacknowledged > 0
    assert acknowledged + unacknowledged < count or count <= 3, "others are still to come"
    assert len(made[0]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, 30_000])
@pytest.mark.parametrize("is_librdkafka", [True, False])
def test_the_cluster_of_the_demo_loses_its_leader_and_no_record(monkeypatch, is_librdkafka, count):
    if not is_librdkafka:
        monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    answer = demo(count)
    assert answer.exit_code == 0, answer.output
    said = " ".join(answer.output.split())
    killed = re.search(
        r"kill -9 of node (\d), the leader of storms-0, after ([\d,]+) records: node (\d) leads",
        said,
    )
    assert killed is not None
    assert killed[1] != killed[3]
    assert count // 3 <= int(killed[2].replace(",", "")) < count, "it was under load"
    assert f"node {killed[1]} is back" in said
    assert f"{count:,} of {count:,} came back, each once and in order: nothing lost" in said


def test_without_another_client_the_demo_uses_ours_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    answer = demo(3_000)
    assert answer.exit_code == 0, answer.output
    assert "confluent-kafka is not installed" in answer.output
    assert sum(row[3] for row in table_rows(answer.output)[-3:]) == 3_000


def test_the_demo_fails_where_a_record_is_another_than_was_sent(monkeypatch, temporary):
    sent = demo_clients.reading
    monkeypatch.setattr(demo_clients, "reading", lambda number: sent(number + (number == 99)))
    answer = demo(200)
    assert answer.exit_code == 1
    assert "Error: record 100" in answer.output
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("topic", ["tides", pytest.param("storms", marks=pytest.mark.slow)])
def test_the_demo_fails_where_a_record_is_there_twice(monkeypatch, temporary, topic):
    """Nothing is read behind the last record that is waited for."""
    produce = LibrdkafkaClient.produce

    def produce_twice(self: LibrdkafkaClient, to: str, count: int) -> Iterator[int]:
        yield from produce(self, to, count)
        if to == topic:
            list(produce(self, to, count))

    monkeypatch.setattr(LibrdkafkaClient, "produce", produce_twice)
    answer = demo(1)
    assert answer.exit_code == 1, answer.output
    assert f"Error: topic {topic} has 2 records, but 1 were written" in answer.output
    assert list(temporary.iterdir()) == []


def test_the_demo_fails_in_one_line_where_no_node_starts(monkeypatch, temporary):
    monkeypatch.setattr(demo_node, "free_ports", lambda count: [65_535])
    answer = demo(10)
    assert answer.exit_code == 1
    assert "--port 65535 leaves no room" in answer.output.splitlines()[-1]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("taken", "number", "offset"),
    [([(0, 0)], 0, 1), ([(0, 0)], 1, 2), ([(5, 0)], 4, 1)],
    ids=["twice", "after a gap", "out of order"],
)
def test_what_comes_back_wrong_is_seen(taken, number, offset):
    received = Received(10)
    for earlier, at in taken:
        received.take(0, at, *reading(earlier))
    with pytest.raises(DemoFailed):
        received.take(0, offset, *reading(number))


def processes_of(directory: Path) -> list[int]:
    """Those whose command line names this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(directory) in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # it ended while we looked
    return found


@contextmanager
def producing_demo(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo as a process, amid its work."""
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    command = [*COMMAND, "--records", "10000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        while "topic tides" not in (line := process.stdout.readline()):
            assert line, "the demo ended early"
        yield process
        process.communicate(timeout=SECONDS_MAX)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_and_no_files(temporary, number):
    with producing_demo(temporary) as process:
        assert len(processes_of(temporary)) == 2
        process.send_signal(number)
    assert process.returncode == 1
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_the_node_dies_with_a_demo_that_is_killed(temporary):
    with producing_demo(temporary) as process:
        ends = [os.pidfd_open(child) for child in processes_of(temporary)]
        assert len(ends) == 2
        process.kill()
    for end in ends:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        assert poll.poll(SECONDS_MAX * 1000)
        os.close(end)
    assert processes_of(temporary) == []
