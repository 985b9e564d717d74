"""`tidelog produce` and `tidelog consume` against a node of ours."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.cli.node import SCRIPT, SECONDS_MAX, Up, run, up

from tidelog.client import Client, ClientSettings, TopicPartition, parse_servers
from tidelog.client.fetch import fetch

pytestmark = pytest.mark.slow  # every command is a process


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("node")) as command:
        yield command


Command = Callable[..., subprocess.CompletedProcess[str]]


numbers = itertools.count()
TIMEOUT = "request.timeout.ms=1000"


@pytest.fixture
def topic(node: Up) -> str:
    """One of this test's own, with three partitions."""
    name = f"topic-{next(numbers)}"
    server = ("--bootstrap-server", node.servers)
    created = run("topics", *server, "--create", "--topic", name, "--partitions", "3")
    assert created.returncode == 0, created.stderr
    return name


@pytest.fixture
def produce(node: Up, topic: str) -> Command:
    def call(stdin: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        server = ("--bootstrap-server", node.servers)
        return run("produce", *server, "--topic", topic, *arguments, stdin=stdin)

    return call


@pytest.fixture
def consume(node: Up, topic: str) -> Command:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        server = ("--bootstrap-server", node.servers)
        return run("consume", *server, "--topic", topic, *arguments)

    return call


def test_what_goes_in_comes_out(produce, consume):
    lines = [str(number) for number in range(20_000)]
    sent = produce("\n".join(lines) + "\n")
    assert sent.returncode == 0, sent.stderr
    assert sent.stdout == ""
    assert "Sent 20,000 records to" in sent.stderr
    read = consume("--from-beginning", "--max-messages", "20000")
    assert sorted(read.stdout.split(), key=int) == lines
    assert read.stderr == "Processed a total of 20000 messages\n"
    assert read.returncode == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_acks(produce, consume, codec):
    for acks in ("0", "1", "all"):
        sent = produce("x\n" * 100, "--compression-codec", codec, "--acks", acks)
        assert sent.returncode == 0, sent.stderr
    read = consume("--from-beginning", "--max-messages", "300", "--timeout-ms", "5000")
    assert read.stdout == "x\n" * 300


def test_keys_headers_offsets_and_times_are_printed(produce, consume):
    produce("a:1,b:2\tkey\tvalue\n", "--parse-key", "--parse-headers", "--partition", "1")
    read = consume(
        "--partition", "1", "--offset", "0", "--max-messages", "1", "--print-key",
        "--print-offset", "--print-timestamp", "--print-headers", "--print-partition",
    )  # fmt: skip
    time, *rest = read.stdout.rstrip("\n").split("\t")
    assert rest == ["Partition:1", "Offset:0", "a:1,b:2", "key", "value"]
    assert time.startswith("CreateTime:1")
    shown = json.loads(consume("--from-beginning", "--max-messages", "1", "--json").stdout)
    assert (shown["partition"], shown["key"], shown["value"]) == (1, "key", "value")
    assert shown["headers"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]


def test_a_key_stays_in_its_partition(produce, consume):
    produce("".join(f"{key}={n}\n" for n in range(5) for key in "abcdef"), "--key-separator", "=")
    read = consume("--from-beginning", "--max-messages", "30", "--print-key", "--print-partition")
    places = {tuple(line.split("\t")[:2][::-1]) for line in read.stdout.splitlines()}
    assert len(places) == 6
    assert len({partition for _, partition in places}) > 1
    values = [line.split("\t")[2] for line in read.stdout.splitlines() if "\ta\t" in line]
    assert values == list("01234")


def test_files_are_read_one_after_the_other(produce, consume, tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2")
    files = ("--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"))
    summary = json.loads(produce("", *files, "--partition", "0", "--json").stdout)
    assert (summary["records"], summary["end_offsets"]) == (4, {"0": 4})
    read = consume("--partition", "0", "--offset", "earliest", "--max-messages", "4")
    assert read.stdout == "a1\na2\nb1\nb2\n"


def test_reading_starts_where_it_is_told(produce, consume):
    produce("old\n", "--partition", "0")
    times = consume("--from-beginning", "--max-messages", "1", "--print-timestamp").stdout
    old = int(times.split("\t")[0].removeprefix("CreateTime:"))
    produce("new\n", "--partition", "0", "--header", "a=b")
    after = consume("--timestamp", str(old + 1), "--max-messages", "1")
    assert after.stdout == "new\n"
    later = consume("--timestamp", "2100-01-01T00:00:00+00:00", "--timeout-ms", "200")
    assert (later.stdout, later.returncode) == ("", 0)
    second = consume("--partition", "0", "--offset", "1", "--max-messages", "1", "--print-headers")
    assert second.stdout == "a:b\tnew\n"
    assert consume("--timeout-ms", "200").stdout == ""


def test_reading_starts_and_ends_in_the_middle_of_a_batch(produce, consume):
    produce("".join(f"{number}\n" for number in range(10)), "--partition", "0")
    read = consume("--partition", "0", "--offset", "4", "--max-messages", "3")
    assert read.stdout == "4\n5\n6\n"


@pytest.mark.parametrize(("flags", "batches"), [([], 1), (["--sync"], 3)])
def test_records_go_together_or_one_at_a_time(node, topic, produce, flags, batches):
    assert produce("a\nb\nc\n", *flags, "--partition", "2").returncode == 0
    partition = TopicPartition(topic, 2)
    with Client(ClientSettings(bootstrap_servers=parse_servers(node.servers))) as client:
        fetched = client.run(fetch, {partition: 0})[partition]
    assert len(list(fetched.batches())) == batches
    assert fetched.high_watermark == 3


def test_a_large_record_goes_alone(produce, consume):
    large = "y" * 1_048_000  # all but what a batch may have
    small = "small\n" * 200
    sent = produce(f"{small}{large}\n{small}", "--partition", "0")
    assert sent.returncode == 0, sent.stderr
    read = consume("--partition", "0", "--offset", "200", "--max-messages", "1")
    assert read.stdout == large + "\n"


def test_a_slow_pipe_is_not_waited_for(node, topic, consume):
    command = [SCRIPT, "produce", "--bootstrap-server", node.servers, "--topic", topic]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write("first\n")
        process.stdin.flush()
        assert consume("--from-beginning", "--max-messages", "1").stdout == "first\n"
        process.stdin.write("second")
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0


def test_ctrl_c_ends_reading_with_a_sum(node, topic, produce):
    produce("a\n")
    command = [SCRIPT, "consume", "--bootstrap-server", node.servers, "--topic", topic]
    with subprocess.Popen(
        [*command, "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS_MAX)
    assert said == "Processed a total of 1 messages\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("stdin", "arguments", "code", "said"),
    [
        ("a\n", ["--parse-key"], 1, "Error: line 1 has no tab behind its key"),
        ("a\n", ["--partition", "7"], 1, "has partitions 0 to 2, no 7"),
        ("a\n", ["--acks", "2"], 2, "'2' is not one of"),
        ("a\n", ["--reader-property", "x=1"], 2, "no reader property x; there are"),
        ("z" * 2_000_000, [], 1, "at most"),
        ("a\n", ["--command-property", "delivery.timeout.ms=x"], 2, "want a whole number"),
        (
            "a\n",
            ["--command-property", "delivery.timeout.ms=5", "--command-property", TIMEOUT],
            2,
            "delivery.timeout.ms=5 is less than",
        ),
    ],
)
def test_what_cannot_be_sent_is_told(produce, stdin, arguments, code, said):
    answer = produce(stdin, *arguments)
    assert answer.returncode == code
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--partition", "7"], 1, "has partitions 0 to 2, no 7"),
        (["--partition", "0", "--offset", "5"], 1, "offset"),
        (["--offset", "5"], 2, "needs --partition"),
        (["--group", "g"], 2, "reads partitions by itself"),
        (["--offset", "first"], 2, "neither a number nor"),
        (["--timestamp", "yesterday"], 2, "neither milliseconds nor"),
        (["--formatter-property", "x=1"], 2, "no formatter property x"),
    ],
)
def test_what_cannot_be_read_is_told(consume, arguments, code, said):
    answer = consume(*arguments)
    assert answer.returncode == code
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_topic_that_does_not_exist_is_told(node):
    answer = run("consume", "--bootstrap-server", node.servers, "--topic", "nope")
    assert answer.returncode == 1
    assert answer.stderr.startswith("Error: there is no topic nope")


def test_an_unread_pipe_ends_it_quietly(node, topic, produce):
    produce("line\n" * 50_000)
    read = f"{SCRIPT} consume --bootstrap-server {node.servers} --topic {topic} --from-beginning"
    answer = subprocess.run(
        ["sh", "-c", f"{read} | head -1"], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert answer.stdout == "line\n"
    assert "Traceback" not in answer.stderr


def test_the_server_may_be_named_by_the_environment(node, topic):
    answer = subprocess.run(
        [SCRIPT, "topics", "--list"],
        env={**os.environ, "TIDELOG_BOOTSTRAP_SERVER": node.servers},
        capture_output=True,
        text=True,
        check=True,
    )
    assert topic in answer.stdout.split()
    assert Path(SCRIPT).exists()
