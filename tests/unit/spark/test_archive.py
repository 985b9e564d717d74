"""An archive holds each record once, whatever is killed, and proves it. On a real node; no JVM."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from tests.unit.spark.topics import Topics

from tidelog.client import TopicPartition
from tidelog.spark import offset_finder
from tidelog.spark.pipelines import archive_rows, archive_verify
from tidelog.spark.pipelines.archive import Archive, ArchiveOptions
from tidelog.spark.pipelines.archive_commit import MalformedCommit, commit_from_json
from tidelog.spark.pipelines.archive_rows import COLUMNS, RowsDigest
from tidelog.spark.pipelines.archive_table import (
    CommittedByOther,
    FilesMissing,
    NotAnArchive,
    open_table,
)
from tidelog.spark.pipelines.archive_verify import compare_with_brokers, verify
from tidelog.spark.pipelines.tasks import run_here
from tidelog.spark.planner import DataLoss
from tidelog.spark.schema import arrow_schema
from tidelog.spark.source_options import stream_options
from tidelog.wire.compression import Compression


class Killed(BaseException):
    """What a kill -9 at this point would have been."""


@pytest.fixture(params=["parquet", "delta"])
def kind(request) -> str:
    return str(request.param)


def options(topics: Topics, topic: str, **more: Any) -> ArchiveOptions:
    found = {
        "kafka.bootstrap.servers": topics.bootstrap_servers,
        "kafka.isolation.level": more.pop("isolation", "read_committed"),
        "subscribe": topic,
        "startingOffsets": more.pop("starting", "earliest"),
        "failOnDataLoss": more.pop("fail", "true"),
    }
    return ArchiveOptions(source=stream_options(CaseInsensitiveDict(found)), **more)


def archive(wanted: ArchiveOptions, path: Path, kind: str, run: Any = run_here) -> int:
    """All there is; returns how many batches that took."""
    with Archive(wanted, open_table(str(path), kind), run) as running:
        until = running.latest()
        count = 0
        while running.archive_next(until) is not None:
            count += 1
        return count


def rows(path: Path, kind: str) -> list[tuple[int, int, bytes]]:
    """As a stranger reads the table."""
    if kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(path).to_pyarrow_table()
    else:
        table = pq.read_table(path)
    columns = [table[name].to_pylist() for name in ("partition", "offset", "value")]
    return sorted(zip(*columns, strict=True))


def expected(*counts: int) -> list[tuple[int, int, bytes]]:
    return [(p, n, b"%d" % n) for p, count in enumerate(counts) for n in range(count)]


def proven(path: Path) -> list[str]:
    return verify(open_table(str(path), None)).problems


def test_an_archive_holds_every_record_with_all_its_columns(topics, tmp_path, kind):
    topic = f"whole-{kind}"
    topics.create(topic, 3)
    for partition, count in enumerate((25, 7)):
        topics.fill(topic, range(count), partition, Compression.ZSTD)
    wanted = options(topics, topic, offsets_per_batch=10, offsets_per_file=4)
    assert archive(wanted, tmp_path / "t", kind) > 3
    assert rows(tmp_path / "t", kind) == expected(25, 7)
    one = pq.read_table(min((tmp_path / "t").glob("*.parquet")))
    assert one.column_names == list(COLUMNS)
    assert one["topic"].unique().to_pylist() == [topic]
    verified = verify(open_table(str(tmp_path / "t"), None))
    assert verified.problems == []
    assert verified.rows == 32
    assert verified.coverage[TopicPartition(topic, 0)].end_offset == 25
    assert verified.coverage[TopicPartition(topic, 2)].rows == 0


def test_it_goes_on_where_it_stopped(topics, tmp_path, kind):
    topic = f"resumed-{kind}"
    topics.create(topic)
    topics.fill(topic, range(10))
    wanted = options(topics, topic)
    assert archive(wanted, tmp_path / "t", kind) == 1
    assert archive(wanted, tmp_path / "t", kind) == 0
    topics.fill(topic, range(10, 15))
    topics.extend(topic, 2)
    topics.fill(topic, range(4), 1)
    assert archive(wanted, tmp_path / "t", kind) == 1
    assert rows(tmp_path / "t", kind) == expected(15, 4)
    assert proven(tmp_path / "t") == []


def test_where_it_starts_is_pinned_before_the_first_record(topics, tmp_path, kind):
    topic = f"pinned-{kind}"
    topics.create(topic)
    topics.fill(topic, range(10))
    wanted = options(topics, topic, starting="latest")
    archive(wanted, tmp_path / "t", kind)
    topics.fill(topic, range(10, 13))
    archive(wanted, tmp_path / "t", kind)
    assert rows(tmp_path / "t", kind) == expected(13)[10:]
    assert proven(tmp_path / "t") == []


def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, after: int) -> None:
    """The call of this number does not return: all before it happened, nothing after."""
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise Killed(name)
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize(
    ("where", "after"),
    [
        ("file", 0),
        pytest.param("file", 2, marks=pytest.mark.slow),
        pytest.param("commit", 0, marks=pytest.mark.slow),
        ("commit", 1),
        pytest.param("place", 0, marks=pytest.mark.slow),
        ("place", 1),
        pytest.param("place", 4, marks=pytest.mark.slow),
    ],
)
def test_a_kill_at_any_point_loses_and_doubles_nothing(
    topics, tmp_path, kind, monkeypatch, where, after
):
    topic = f"killed-{kind}-{where}-{after}"
    topics.create(topic, 3)
    for partition in range(3):
        topics.fill(topic, range(12), partition)
    path = tmp_path / "t"
    wanted = options(topics, topic, offsets_per_batch=18, offsets_per_file=4)
    table = open_table(str(path), kind)
    with monkeypatch.context() as patched:
        if where == "file":
            killed_at(patched, archive_rows, "_make_durable", after)
        elif where == "place":
            killed_at(patched, table.disk, "rename", after)
        elif kind == "delta":
            from deltalake import DeltaTable

            killed_at(patched, DeltaTable, "create_write_transaction", after)
        else:
            killed_at(patched, os, "link", after)
        # Nothing of a killed process cleans up after it but the operating system.
        patched.setattr(table, "end_run", lambda: None)
        with pytest.raises(Killed), Archive(wanted, table, run_here) as running:
            while running.archive_next() is not None:
                pass
        patched.undo()
    table.disk.unlock(f"{path}/_tidelog/lock")
    is_begun = any(path.glob("*.parquet" if kind == "parquet" else "_delta_log/*"))
    seen = rows(path, kind) if is_begun else []
    assert len(seen) == len(set(seen))
    archive(wanted, path, kind)
    assert rows(path, kind) == expected(12, 12, 12)
    assert proven(path) == []
    assert not (path / "_tidelog/staging").exists()
    if kind == "parquet":
        assert len(pq.read_table(path)) == 36
    else:  # what was put in place and not committed is gone
        assert len(list(path.glob("*.parquet"))) == len(open_table(str(path), kind).visible())


def test_an_interrupted_commit_is_finished_on_the_way_out(topics, tmp_path, kind, monkeypatch):
    topic = f"interrupted-{kind}"
    topics.create(topic, 3)
    for partition in range(3):
        topics.fill(topic, range(12), partition)
    table = open_table(str(tmp_path / "t"), kind)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        killed_at(patched, table.disk, "rename", 2 if kind == "parquet" else 1)
        with Archive(options(topics, topic), table, run_here) as running:
            try:
                running.archive_next()
            finally:
                patched.undo()
    if kind == "parquet":  # a Delta version is written after its files are in place
        assert rows(tmp_path / "t", kind) == expected(12, 12, 12)
    archive(options(topics, topic), tmp_path / "t", kind)
    assert rows(tmp_path / "t", kind) == expected(12, 12, 12)
    assert proven(tmp_path / "t") == []


def test_tasks_that_outlive_their_driver_are_in_nobodys_way(tmp_path, kind):
    """They go on writing to the directory of their run while the next run clears it away."""
    table = open_table(str(tmp_path / "t"), kind)
    directory = Path(table.begin_run("killed"))
    for number in range(300):
        (directory / f"{number}.parquet").touch()
    table.disk.unlock(f"{tmp_path}/t/_tidelog/lock")
    ended = threading.Event()
    written = iter(range(10**9))

    def outlive() -> None:
        while not ended.is_set():
            with suppress(FileNotFoundError):
                (directory / f"late-{next(written)}.parquet").touch()

    tasks = threading.Thread(target=outlive)
    tasks.start()
    try:
        next_table = open_table(str(tmp_path / "t"), kind)
        begun = Path(next_table.begin_run("next"))
        assert list(begun.iterdir()) == []
        next_table.end_run()
    finally:
        ended.set()
        tasks.join()
    assert not directory.exists()
    assert [path.name for path in (tmp_path / "t/_tidelog").iterdir()] == ["lock"]


def test_a_task_that_runs_twice_leaves_one_file(topics, tmp_path, kind):
    topic = f"twice-{kind}"
    topics.create(topic)
    topics.fill(topic, range(10))

    def run_twice(function: Any, items: Any) -> Any:
        for item in items:
            function(item)
        return run_here(function, items)

    archive(options(topics, topic), tmp_path / "t", kind, run_twice)
    assert rows(tmp_path / "t", kind) == expected(10)
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    assert proven(tmp_path / "t") == []


def test_two_archives_cannot_work_on_one_table(topics, tmp_path, kind):
    topic = f"locked-{kind}"
    topics.create(topic)
    topics.fill(topic, range(10))
    wanted = options(topics, topic)
    table = open_table(str(tmp_path / "t"), kind)
    with Archive(wanted, table, run_here) as running:
        with (
            pytest.raises(CommittedByOther, match="another archive runs on"),
            Archive(wanted, open_table(str(tmp_path / "t"), kind), run_here),
        ):
            pass
        # Even without the lock only one of two can commit a batch.
        done = running.archive_next()
        assert done is not None
        staged = Path(table.staging) / done.commit.run
        for found in done.commit.ranges:
            shutil.copy(tmp_path / "t" / found.file, staged)
        with pytest.raises(CommittedByOther):
            table.commit(done.commit)
    assert rows(tmp_path / "t", kind) == expected(10)


def test_files_that_the_driver_does_not_see_are_not_committed(topics, tmp_path, kind):
    topic = f"unshared-{kind}"
    topics.create(topic)
    topics.fill(topic, range(10))

    def run_elsewhere(function: Any, items: Any) -> Any:
        found = run_here(function, items)
        for path in (tmp_path / "t").rglob("*.parquet"):
            path.unlink()
        return found

    with pytest.raises(FilesMissing, match="driver and executors must see the same"):
        archive(options(topics, topic), tmp_path / "t", kind, run_elsewhere)
    archive(options(topics, topic), tmp_path / "t", kind)
    assert rows(tmp_path / "t", kind) == expected(10)


def test_lost_records_stop_it_or_are_written_down(topics, tmp_path, kind):
    topic = f"lost-{kind}"
    topics.create(topic)
    topics.fill(topic, range(10))
    archive(options(topics, topic), tmp_path / "t", kind)
    topics.fill(topic, range(10, 30))
    topics.cut(topic, 20)
    with pytest.raises(DataLoss, match=rf"\[10, 20\) of {topic}-0 were deleted"):
        archive(options(topics, topic), tmp_path / "t", kind)
    archive(options(topics, topic, fail="false"), tmp_path / "t", kind)
    verified = verify(open_table(str(tmp_path / "t"), None))
    assert verified.problems == []
    covered = verified.coverage[TopicPartition(topic, 0)]
    assert (covered.end_offset, covered.rows, covered.lost) == (30, 20, 10)


def test_a_topic_created_anew_is_not_mixed_with_the_old_one(topics, tmp_path, kind):
    topic = f"anew-{kind}"
    topics.create(topic)
    topics.fill(topic, range(10))
    archive(options(topics, topic), tmp_path / "t", kind)
    topics.delete(topic)
    topics.create(topic)
    topics.fill(topic, range(20))
    with pytest.raises(NotAnArchive, match="deleted and created again"):
        archive(options(topics, topic), tmp_path / "t", kind)


def test_what_does_not_fit_the_table_is_refused(topics, tmp_path):
    topics.create("fitting")
    topics.fill("fitting", range(3))
    wanted = options(topics, "fitting")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(NotAnArchive, match="not empty and no archive"):
        open_table(str(tmp_path / "mine"), "parquet")
    archive(wanted, tmp_path / "t", "parquet")
    with pytest.raises(NotAnArchive, match="in the format parquet, not delta"):
        open_table(str(tmp_path / "t"), "delta")
    other = options(topics, "fitting", isolation="read_uncommitted")
    with pytest.raises(NotAnArchive, match="begun with the isolation level read_committed"):
        archive(other, tmp_path / "t", "parquet")
    from deltalake import write_deltalake

    for mode in ("overwrite", "append"):
        write_deltalake(tmp_path / "theirs", pa.table({"a": [1]}), mode=mode)
    for _ in range(2):  # nor is it locked by who was refused
        with pytest.raises(NotAnArchive, match="a Delta table of somebody else"):
            archive(wanted, tmp_path / "theirs", "delta")


def test_what_was_killed_before_its_first_commit_leaves_the_choice_of_the_format(topics, tmp_path):
    topics.create("choice")
    topics.fill("choice", range(3))
    (tmp_path / "t/_tidelog/commits").mkdir(parents=True)
    (tmp_path / "t/_tidelog/commits/00000000000000000000.json.new").touch()
    archive(options(topics, "choice"), tmp_path / "t", "delta")
    assert rows(tmp_path / "t", "delta") == expected(3)


def test_topics_of_earlier_runs_are_not_waited_for(topics, tmp_path, kind, monkeypatch):
    topics.create(f"earlier-{kind}")
    topics.create(f"later-{kind}")
    topics.fill(f"earlier-{kind}", range(3))
    archive(options(topics, f"earlier-{kind}"), tmp_path / "t", kind)
    waits: list[float] = []
    monkeypatch.setattr(offset_finder.time, "sleep", waits.append)
    topics.fill(f"later-{kind}", range(4))
    archive(options(topics, f"later-{kind}"), tmp_path / "t", kind)
    assert len(rows(tmp_path / "t", kind)) == 7
    assert proven(tmp_path / "t") == []
    assert waits == []


@pytest.fixture
def archived(topics, tmp_path, kind) -> Path:
    """Two batches of two partitions, five records each."""
    topic = f"verified-{tmp_path.name}"
    topics.create(topic, 2)
    for partition in range(2):
        topics.fill(topic, range(10), partition)
    archive(options(topics, topic, offsets_per_batch=10), tmp_path / "t", kind)
    assert proven(tmp_path / "t") == []
    return tmp_path / "t"


def data_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet"))


def test_an_archive_that_goes_on_meanwhile_is_proven(archived, topics, kind, monkeypatch):
    """A batch is committed between a look at the commits and one at the files."""
    topic = next(iter(open_table(str(archived), None).commits())).ranges[0].topic
    table = open_table(str(archived), None)
    visible = table.visible

    def commit_and_look() -> set[str]:
        monkeypatch.setattr(table, "visible", visible)
        topics.fill(topic, range(10, 13))
        assert archive(options(topics, topic), archived, kind) == 1
        return visible()

    monkeypatch.setattr(table, "visible", commit_and_look)
    verified = verify(table)
    assert (verified.problems, verified.batches, verified.rows) == ([], 3, 23)


def test_files_that_a_commit_has_not_moved_yet_are_waited_for_a_while(
    topics, tmp_path, monkeypatch
):
    topics.create("moving")
    topics.fill("moving", range(10))
    archive(options(topics, "moving"), tmp_path / "t", "parquet")
    (path,) = data_files(tmp_path / "t")
    table = open_table(str(tmp_path / "t"), None)
    staging = tmp_path / "t/_tidelog/staging" / next(iter(table.commits())).run
    staging.mkdir(parents=True)
    path.rename(staging / path.name)
    waits: list[float] = []
    monkeypatch.setattr(archive_verify.time, "sleep", waits.append)
    (problem,) = verify(table).problems
    assert "is not in the table" in problem
    assert len(waits) == archive_verify.LOOKS_MAX - 1, "whose archive was killed, stays so"
    monkeypatch.setattr(archive_verify.time, "sleep", lambda _: (staging / path.name).rename(path))
    assert verify(table).problems == []


def test_a_file_that_is_gone_is_found(archived):
    data_files(archived)[0].unlink()
    (problem,) = proven(archived)
    assert "cannot be read" in problem or "is not in the table" in problem


def test_rows_that_were_changed_are_found(archived):
    path = data_files(archived)[0]
    table = pq.read_table(path)
    values = table["value"].to_pylist()
    values[1] = b"another"
    changed = table.set_column(1, "value", pa.array(values, pa.binary()))
    pq.write_table(changed, path)
    (problem,) = proven(archived)
    assert "are not those that were archived" in problem
    pq.write_table(table.slice(1), path)
    (problem,) = proven(archived)
    assert "rows of" in problem
    pq.write_table(pa.concat_tables([table, table]), path)
    (problem,) = proven(archived)
    assert "do not rise" in problem


def test_a_file_that_no_commit_knows_is_found(archived, kind):
    if kind == "delta":
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(archived, pq.read_table(data_files(archived)[0]), mode="append")
        assert len(DeltaTable(archived).to_pyarrow_table()) == 25
    else:
        shutil.copy(data_files(archived)[0], archived / "part-copy.parquet")
    (problem,) = proven(archived)
    assert problem.startswith("5 rows too many")


def test_a_commit_that_is_gone_is_found(archived, kind):
    if kind == "delta":
        entry = archived / "_delta_log/00000000000000000001.json"
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for line in lines:
            line.get("commitInfo", {}).pop("tidelog.commit", None)
        entry.write_text("\n".join(map(json.dumps, lines)))
    else:
        min((archived / "_tidelog/commits").iterdir()).unlink()
    assert any("batch 0 is missing" in problem for problem in proven(archived))


def test_ranges_that_leave_a_gap_or_overlap_are_found(archived, kind):
    if kind == "delta":
        entry = archived / "_delta_log/00000000000000000002.json"
    else:
        entry = max((archived / "_tidelog/commits").iterdir())
    text = entry.read_text()
    quote = '\\"' if kind == "delta" else '"'
    key = f"{quote}start_offset{quote}:"
    assert f"{key}5" in text
    entry.write_text(text.replace(f"{key}5", f"{key}6", 1))
    assert any("offsets 5 to 5 are in no range" in problem for problem in proven(archived))
    entry.write_text(text.replace(f"{key}5", f"{key}4", 1))
    assert any("offsets 4 to 4 are in two ranges" in problem for problem in proven(archived))


def test_a_delta_table_that_was_optimized_is_still_proven(archived, kind):
    if kind != "delta":
        return
    from deltalake import DeltaTable

    table = DeltaTable(archived)
    assert table.optimize.compact()["numFilesRemoved"] == 4
    assert proven(archived) == []
    table.delete("offset = 7")
    assert any("rows of [5, 10)" in problem for problem in proven(archived))


def optimized(topics: Topics, path: Path, topic: str, records: int) -> Any:
    from deltalake import DeltaTable

    topics.create(topic)
    for start in range(0, records, 100):
        topics.fill(topic, range(start, start + 100))
    archive(options(topics, topic, offsets_per_file=records // 2), path, "delta")
    table = DeltaTable(path)
    table.optimize.z_order(["value"])
    return table


def test_of_an_optimized_table_a_window_at_a_time_is_held(topics, tmp_path, monkeypatch):
    """Its rows are in another order, and all rows of a range need not fit into memory."""
    optimized(topics, tmp_path / "t", "windows", 2000)
    sizes = []

    class Spy(RowsDigest):
        def add(self, batch: pa.RecordBatch) -> None:
            sizes.append(batch.num_rows)
            super().add(batch)

    monkeypatch.setattr(archive_verify, "RowsDigest", Spy)
    assert proven(tmp_path / "t") == []
    assert sizes == [1000, 1000]
    sizes.clear()
    monkeypatch.setattr(archive_verify, "WINDOW_BYTES", 2_000)
    assert proven(tmp_path / "t") == []
    assert sum(sizes) == 2000
    assert max(sizes) <= 200


def test_an_optimized_table_that_cannot_be_read_is_a_finding(topics, tmp_path):
    table = optimized(topics, tmp_path / "t", "unreadable", 200)
    (path,) = (tmp_path / "t" / uri.rpartition("/")[2] for uri in table.file_uris())
    whole = path.read_bytes()
    for content in (b"no Parquet", whole[:200] + b"\0" * 200 + whole[400:]):
        path.write_bytes(content)
        assert any("cannot be read" in problem for problem in proven(tmp_path / "t"))
    path.unlink()
    assert any("cannot be read" in problem for problem in proven(tmp_path / "t"))


def test_a_delta_log_that_cannot_be_read_is_said(topics, tmp_path):
    optimized(topics, tmp_path / "t", "logless", 200)
    for entry in (tmp_path / "t/_delta_log").glob("*.json"):
        entry.write_text("{")
    with pytest.raises(NotAnArchive, match="is no sound Delta table"):
        proven(tmp_path / "t")


def test_the_brokers_are_asked_again(archived, topics, tmp_path):
    topic = next(iter(open_table(str(archived), None).commits())).ranges[0].topic
    strict = replace(options(topics, topic).source, columns=COLUMNS)
    earliest = {TopicPartition(topic, partition): 0 for partition in range(2)}
    table = open_table(str(archived), None)
    assert compare_with_brokers(table, strict, earliest, run_here) == (4, [])
    topics.delete(topic)
    topics.create(topic, 2)
    for partition in range(2):
        topics.fill(topic, range(100, 110), partition)
    count, problems = compare_with_brokers(table, strict, earliest, run_here)
    assert (count, len(problems)) == (4, 4)
    gone = dict.fromkeys(earliest, 10)
    assert compare_with_brokers(table, strict, gone, run_here) == (
        0,
        ["the brokers hold none of 4 ranges any more: nothing was compared"],
    )


def test_equal_rows_have_an_equal_digest_however_they_are_cut():
    headers = [None, [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], []]
    content = [
        {"key": key, "value": value, "topic": "t", "partition": 0, "offset": n, "headers": header}
        for n, (key, value, header) in enumerate(
            zip([b"k", None, b""], [b"v", b"", None], headers, strict=True)
        )
    ]
    schema = arrow_schema(COLUMNS)

    def digest(pieces: list[list[dict[str, Any]]]) -> str:
        found = RowsDigest()
        for piece in pieces:
            found.add(pa.RecordBatch.from_pylist(piece, schema=schema))
        return found.text()

    whole = digest([content])
    assert whole == digest([content[:1], content[1:]]) == digest([[row] for row in content])
    sliced = RowsDigest()
    both = pa.RecordBatch.from_pylist([*content, *content], schema=schema)
    sliced.add(both.slice(3, 1))
    sliced.add(both.slice(4, 2))
    assert sliced.text() == whole
    seen = {whole}
    for row in range(3):
        for change in ({"key": b"x"}, {"value": b"x"}, {"offset": 9}, {"headers": [{"key": "z"}]}):
            changed = [{**r, **change} if n == row else r for n, r in enumerate(content)]
            seen.add(digest([changed]))
    for column in ("key", "value"):  # null is not empty
        swapped = [dict(r) for r in content]
        swapped[1][column], swapped[2][column] = swapped[2][column], swapped[1][column]
        seen.add(digest([swapped]))
    assert len(seen) == 15


def test_what_is_no_commit_is_named():
    for text in ("", "[]", "{}", '{"version": 1}', '{"version": 9}', "\x00"):
        with pytest.raises(MalformedCommit, match="here"):
            commit_from_json("here", text)
