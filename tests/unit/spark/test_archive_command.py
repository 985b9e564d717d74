"""`tidelog pipeline archive` without Spark: what it refuses, proves and says. On a real node."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.spark.test_archive import archive, data_files, options

from tidelog.cli import pipeline_progress
from tidelog.cli.main import tidelog
from tidelog.cli.pipeline_archive import _Stop
from tidelog.cli.pipeline_progress import ArchiveProgress
from tidelog.client import TopicPartition
from tidelog.client.topics import list_topics
from tidelog.spark.pipelines import tasks
from tidelog.spark.pipelines.archive import Archive, Archived
from tidelog.spark.pipelines.archive_commit import ArchivedRange, Commit
from tidelog.spark.pipelines.archive_table import open_table
from tidelog.spark.pipelines.tasks import reason_of


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tidelog, ["pipeline", "archive", *arguments])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((), "say what to archive: --topic A,B or --topic-pattern REGEX"),
        (("--topic", "a", "--topic-pattern", "b"), "--topic A,B or --topic-pattern REGEX"),
        (("--topic", "a", "--format", "orc"), "'orc' is not one of 'parquet', 'delta'"),
        (("--topic", "a", "--compression", "xz"), "'zstd', 'snappy', 'gzip', 'lz4', 'none'"),
        (("--topic", "a", "--starting-offsets", "now"), "--starting-offsets is 'now': expected"),
        (("--topic-pattern", "("), "--topic-pattern is '(', no regular expression"),
        (("--topic", "a", "--isolation-level", "x"), "'read_uncommitted', 'read_committed'"),
        (("--topic", "a", "--command-property", "acks=all"), "does not know kafka.acks; it knows"),
        (("--topic", "a", "--against-brokers"), "--against-brokers goes with --verify"),
        (("--topic", "a", "--max-records-per-batch", "0"), "0 is not in the range x>=1"),
        (("--topic", "a", "--tpic", "b"), "No such option"),
    ],
)
def test_a_wrong_option_is_told_what_is_right(tmp_path, wrong, message):
    answer = run("--to", str(tmp_path / "t"), *wrong)
    assert answer.exit_code == 2
    assert message in " ".join(answer.output.split())
    assert not (tmp_path / "t").exists()


def test_what_cannot_be_archived_is_said_in_a_line(topics, tmp_path):
    servers = ("--bootstrap-server", topics.bootstrap_servers)
    answer = run(*servers, "--topic", "missing-topic", "--to", str(tmp_path / "t"))
    assert answer.exit_code == 1
    assert "missing-topic" in answer.output
    assert len(answer.output.splitlines()) == 1
    answer = run("--bootstrap-server", "127.0.0.1:1", "--topic", "a", "--to", str(tmp_path / "t"))
    assert answer.exit_code == 1
    assert "cannot reach a broker at 127.0.0.1:1" in answer.output
    answer = run(*servers, "--topic", "a", "--to", "s3://bucket/table")
    assert answer.exit_code == 2
    assert "driver and executors have mounted" in answer.output


def test_what_only_the_brokers_know_to_be_wrong_is_told_what_is_right(topics, tmp_path):
    topics.create("two", 2)
    command = ("--bootstrap-server", topics.bootstrap_servers, "--to", str(tmp_path / "t"))
    answer = run(*command, "--topic", "two", "--starting-offsets", '{"two": {"7": 0}}')
    assert answer.exit_code == 2
    said = " ".join(answer.output.split())
    assert "--starting-offsets must name all partitions that are read" in said
    assert "Specified: two-7; assigned: two-0, two-1" in said
    internal = "__consumer_offsets"
    if internal not in topics.client.run(list_topics):
        topics.create(internal)
    answer = run(*command, "--topic", internal)
    assert answer.exit_code == 2
    assert f"{internal}: the brokers keep this topic for themselves" in " ".join(
        answer.output.split()
    )


def test_where_nothing_is_to_be_read_spark_is_not_started(topics, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "open_session", None)
    topics.create("empty", 2)
    command = ("--bootstrap-server", topics.bootstrap_servers, "--topic", "empty", "--once")
    answer = run(*command, "--to", str(tmp_path / "t"))
    assert answer.exit_code == 0, answer.output
    assert "archived 0 rows in 1 batches" in answer.output
    assert "holds empty-0 to 0, empty-1 to 0; the same command goes on from there" in answer.output
    answer = run(*command, "--to", str(tmp_path / "t"), "--json")
    summary = json.loads(answer.output)
    assert summary["batches"] == 0
    assert summary["ends"] == {"empty-0": 0, "empty-1": 0}


@pytest.fixture
def table(topics, tmp_path) -> Path:
    topic = f"proven-{tmp_path.name}"
    topics.create(topic)
    topics.fill(topic, range(10))
    archive(options(topics, topic), tmp_path / "t", "parquet")
    return tmp_path / "t"


def test_a_whole_table_is_proven(topics, table):
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    answer = run("--to", str(table), "--verify")
    assert answer.exit_code == 0, answer.output
    assert "offsets 0 to 10, 10 rows in 1 ranges" in answer.output
    assert "proven: no gap, no record twice" in answer.output
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before
    servers = ("--bootstrap-server", topics.bootstrap_servers)
    answer = run("--to", str(table), "--verify", "--against-brokers", "--json", *servers)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    assert (found["proven"], found["ranges_compared_with_brokers"]) == (True, 1)
    answer = run("--to", str(table), "--verify", "--against-brokers", *servers)
    assert "1 of 1 ranges equal the brokers'" in answer.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--topic", "a"), "--topic does not go with --verify, which reads all of a table"),
        (("--topic-pattern", "a"), "--topic-pattern does not go with --verify"),
        (("--once",), "--once does not go with --verify"),
        (("--isolation-level", "read_committed"), "--isolation-level does not go with --verify"),
        (("--conf", "a=b"), "--conf goes with --master"),
        (("--bootstrap-server", "a:1"), "--bootstrap-server goes with --against-brokers"),
        (("--command-property", "a=1"), "--command-property goes with --against-brokers"),
        (("--format", "delta"), "is an archive in the format parquet, not delta"),
    ],
)
def test_what_verify_would_ignore_is_refused(table, given, message):
    answer = run("--to", str(table), "--verify", *given)
    assert answer.exit_code in (1, 2)
    assert message in " ".join(answer.output.split())


def test_brokers_that_hold_nothing_any_more_prove_nothing(topics, table):
    topic = next(iter(open_table(str(table), None).commits())).ranges[0].topic
    topics.cut(topic, 10)
    servers = ("--bootstrap-server", topics.bootstrap_servers)
    answer = run("--to", str(table), "--verify", "--against-brokers", *servers)
    assert answer.exit_code == 1
    assert "the brokers hold none of 1 ranges any more: nothing was compared" in answer.output


def test_topics_that_the_brokers_have_no_more_are_not_asked_for(topics, tmp_path):
    names = [f"{kind}-{tmp_path.name}" for kind in ("kept", "dropped")]
    for name in names:
        topics.create(name)
        topics.fill(name, range(10))
    archive(options(topics, ",".join(names)), tmp_path / "t", "parquet")
    topics.delete(names[1])
    servers = ("--bootstrap-server", topics.bootstrap_servers)
    # Nothing waits for a topic to come back, so that an answer has to come soon.
    soon = ("--command-property", "default.api.timeout.ms=5000")
    answer = run("--to", str(tmp_path / "t"), "--verify", "--against-brokers", *servers, *soon)
    assert answer.exit_code == 0, answer.output
    assert "1 of 2 ranges equal the brokers'" in answer.output


def test_a_broken_table_is_not(table):
    data_files(table)[0].unlink()
    answer = run("--to", str(table), "--verify")
    assert answer.exit_code == 1
    assert "is not in the table" in answer.output
    assert "NOT proven: 1 problems" in answer.output
    answer = run("--to", str(table), "--verify", "--json")
    assert answer.exit_code == 1
    assert json.loads(answer.output)["proven"] is False
    commit = next((table / "_tidelog/commits").iterdir())
    commit.write_text("{}")
    answer = run("--to", str(table), "--verify")
    assert answer.exit_code == 1
    assert "is no commit of an archive" in answer.output


def test_a_terminal_shows_batches_rate_and_lag(monkeypatch, capsys):
    ticks = iter([0.0, 2.0, 4.0, 5.0])
    monkeypatch.setattr(pipeline_progress.time, "monotonic", lambda: next(ticks))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    a0 = TopicPartition("a", 0)
    progress = ArchiveProgress(as_json=False)
    for batch, rows, lag in ((0, 30, 5000), (1, 2000, 7)):
        found = ArchivedRange(*a0, 0, rows, rows, 0, rows - 1, "f", 1, "")
        commit = Commit(
            batch=batch,
            run="r",
            isolation="read_committed",
            written_ms=0,
            topic_ids={},
            starts={},
            ends={a0: 2030},
            ranges=(found,),
        )
        progress.committed(Archived(commit, lag))
    drawn = capsys.readouterr().err.split("\r\x1b[K")
    assert drawn == ["", "batch 0, 30 rows, 15/s, lag 5,000", "batch 1, 2,030 rows, 1,000/s, lag 7"]
    progress.close()
    assert capsys.readouterr().err == "\r\x1b[K"
    progress.summarize(commit, "t")
    said = capsys.readouterr().out
    assert "archived 2,030 rows in 2 batches and 5.0 s (406/s), lag 7\n" in said
    assert "t holds a-0 to 2,030" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_waits_for_a_commit_and_for_nothing_else(number):
    archive = Archive.__new__(Archive)
    before = signal.getsignal(number)
    went_on = []
    for archive.is_committing in (True, False):
        with pytest.raises(KeyboardInterrupt), _Stop(archive) as stop:
            signal.raise_signal(number)
            assert stop.was_asked
            went_on.append(archive.is_committing)
    assert went_on == [True]
    assert signal.getsignal(number) is before


def test_what_is_no_archive_is_said(tmp_path):
    answer = run("--to", str(tmp_path / "nothing"), "--verify")
    assert "is no archive yet: it has no commit" in answer.output
    (tmp_path / "notes.txt").touch()
    answer = run("--to", str(tmp_path), "--verify")
    assert (
        answer.output == f"Error: {tmp_path} is not empty and no archive: name another directory\n"
    )
    assert answer.exit_code == 1


def test_a_running_archive_keeps_others_out(topics, table):
    holder = open_table(str(table), None)
    holder.begin_run("other")
    topic = next(iter(holder.commits())).ranges[0].topic
    servers = ("--bootstrap-server", topics.bootstrap_servers)
    answer = run(*servers, "--topic", topic, "--to", str(table), "--once")
    assert answer.exit_code == 1
    assert "another archive runs on" in answer.output
    assert run("--to", str(table), "--verify").exit_code == 0
    holder.end_run()


def test_without_java_it_is_said_what_to_install(topics, table, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    topic = next(iter(open_table(str(table), None).commits())).ranges[0].topic
    topics.fill(topic, range(10, 12))
    servers = ("--bootstrap-server", topics.bootstrap_servers)
    answer = run(*servers, "--topic", topic, "--to", str(table), "--once")
    assert answer.exit_code == 1
    assert "Spark needs Java 17 or newer" in answer.output


def test_the_file_for_spark_submit_is_named_and_is_the_command():
    answer = CliRunner().invoke(tidelog, ["pipeline", "submit-file"])
    path = Path(answer.output.strip())
    assert path.suffix == ".py"
    assert 'command(prog_name="tidelog pipeline")' in path.read_text()


def test_the_reason_of_a_failed_task_is_its_last_line():
    text = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.SparkException: Job aborted\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "    process()\n"
        "tidelog.client.errors.TimedOut: no broker answered\n"
        "\n\tat org.apache.spark.api.python.BasePythonRunner\n"
    )
    assert reason_of(text) == "tidelog.client.errors.TimedOut: no broker answered"
    assert reason_of("Job aborted\nmore") == "Job aborted"
