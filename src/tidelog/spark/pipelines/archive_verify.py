"""Proves what an archive covers: no gap, no record twice, and rows that are those of their ranges.

The commits say what should be there; the files that a reader of the table sees are read, and say
what is there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidelog.client import TopicPartition
from tidelog.spark.pipelines.archive_commit import ArchivedRange, Commit, MalformedCommit
from tidelog.spark.pipelines.archive_rows import COLUMNS, RowsDigest
from tidelog.spark.pipelines.archive_table import Table
from tidelog.spark.pipelines.tasks import Run, run_here
from tidelog.spark.planner import OffsetRange
from tidelog.spark.range_reader import read_range
from tidelog.spark.schema import arrow_schema
from tidelog.spark.source_options import SourceOptions
from tidelog.types import Offset

LOOKS_MAX = 10
LOOK_SECONDS = 0.1
"""A commit takes less; files that were not moved then were left by a kill."""
ROWS_AT_ONCE = 64 * 1024
WINDOW_BYTES = 64 << 20
"""Of rows that have to be sorted, as large as a row group of ours."""
_ONE_AFTER_THE_OTHER = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(
        use_buffered_stream=True, pre_buffer=False
    )
)
"""How files are read where others chose their row groups: page by page."""


@dataclass
class Coverage:
    """Of a partition."""

    start_offset: Offset
    end_offset: Offset
    rows: int = 0
    ranges: int = 0
    lost: int = 0
    """Offsets that were gone before they could be archived."""


@dataclass
class Verified:
    """What was found. Without problems, the coverage is proven."""

    batches: int = 0
    files: int = 0
    size: int = 0
    coverage: dict[TopicPartition, Coverage] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(covered.rows for covered in self.coverage.values())


class _Expected(NamedTuple):
    """A range, and where its file is."""

    found: ArchivedRange
    path: str
    is_visible: bool
    others: tuple[str, ...]
    """Files that no commit knows: somebody may have rewritten the table's into them."""


def verify(table: Table, run: Run = run_here) -> Verified:
    """Read all of the table. Raises NotAnArchive, MalformedCommit."""
    verified = Verified()
    commits, visible = _one_moment(table)
    verified.batches = len(commits)
    verified.problems += _chain(commits, verified.coverage)
    known = {found.file for commit in commits for found in commit.ranges if found.file}
    others = tuple(sorted(f"{table.path}/{name}" for name in visible - known))
    expected = [
        _Expected(found, table.find(found.file, commit.run), found.file in visible, others)
        for commit in commits
        for found in commit.ranges
    ]
    for problems in run(_check, expected):
        verified.problems += problems
    moved = sum(each.found.rows for each in expected if each.found.rows and not each.is_visible)
    verified.problems += _others(others, moved)
    verified.files = len(known)
    verified.size = sum(found.size for commit in commits for found in commit.ranges)
    return verified


def _one_moment(table: Table) -> tuple[list[Commit], set[str]]:
    """Commits and files that belong together, also where an archive goes on meanwhile."""
    for look in range(LOOKS_MAX):
        if look:
            time.sleep(LOOK_SECONDS)
        commits, visible = list(table.commits()), table.visible()
        if not commits:
            break
        last, newest = commits[-1], table.last_commit()
        moving = [r.file for r in last.ranges if r.file and _is_staged(table, r.file, last.run)]
        if not moving and newest is not None and newest.batch == last.batch:
            break
    return commits, visible


def _is_staged(table: Table, name: str, run: str) -> bool:
    return table.find(name, run) != f"{table.path}/{name}"


def _chain(commits: list[Commit], coverage: dict[TopicPartition, Coverage]) -> Iterator[str]:
    """Whether the commits follow each other, and the ranges of each partition do."""
    for number, commit in enumerate(commits):
        if commit.batch != number:
            yield f"batch {number} is missing: batch {commit.batch} comes after {number - 1}"
            return
        for partition, start in commit.starts.items():
            coverage.setdefault(partition, Coverage(start, start))
        yield from _extend(commit, coverage)
        for partition, end in commit.ends.items():
            covered = coverage.get(partition)
            if covered is None or covered.end_offset != end:
                yield f"batch {number} says that {partition} ends at {end}, and its ranges do not"


def _extend(commit: Commit, coverage: dict[TopicPartition, Coverage]) -> Iterator[str]:
    lost = [(r.partition, r.start_offset, r.end_offset, None) for r in commit.lost]
    ranges = [(r.of, r.start_offset, r.end_offset, r) for r in commit.ranges]
    for partition, start, end, found in sorted([*lost, *ranges], key=lambda piece: piece[:3]):
        covered = coverage.setdefault(partition, Coverage(start, start))
        if start > covered.end_offset:
            yield f"{partition}: offsets {covered.end_offset} to {start - 1} are in no range"
        elif start < covered.end_offset:
            yield f"{partition}: offsets {start} to {covered.end_offset - 1} are in two ranges"
        covered.end_offset = max(covered.end_offset, end)
        if found is None:
            covered.lost += end - start
        else:
            covered.ranges += 1
            covered.rows += found.rows


def _check(expected: _Expected) -> list[str]:
    """What is wrong with the rows of a range."""
    found = expected.found
    if not found.rows:
        return []
    if not expected.is_visible and not expected.others:
        return [f"{expected.path}, with {found.rows} rows of {found}, is not in the table"]
    try:
        if not expected.is_visible:
            return list(_compare(found, _moved_rows(found, expected.others), "the table"))
        with pq.ParquetFile(expected.path) as file:
            return list(_compare(found, file.iter_batches(ROWS_AT_ONCE), expected.path))
    except (OSError, pa.ArrowException) as error:
        where = expected.path if expected.is_visible else "a file of the table"
        return [f"{where}, with {found.rows} rows of {found}, cannot be read: {error}"]


def _moved_rows(found: ArchivedRange, paths: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a range from files that others made of the table's, in order: a window of
    offsets at a time, for all rows of a range need not fit into memory."""
    files = ds.dataset(list(paths), schema=arrow_schema(COLUMNS), format=_ONE_AFTER_THE_OTHER)
    of_partition = (ds.field("topic") == found.topic) & (ds.field("partition") == found.partition)
    step = _window(found, paths)
    for start in range(found.start_offset, found.end_offset, step):
        end = min(start + step, found.end_offset)
        within = of_partition & (ds.field("offset") >= start) & (ds.field("offset") < end)
        rows = files.to_table(
            filter=within,
            batch_size=ROWS_AT_ONCE // 16,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )
        yield from rows.sort_by("offset").combine_chunks().to_batches()


def _window(found: ArchivedRange, paths: tuple[str, ...]) -> int:
    """How many offsets take about WINDOW_BYTES, by what a row takes in these files."""
    metadata = [pq.read_metadata(path) for path in paths]
    rows = sum(each.num_rows for each in metadata)
    groups = [each.row_group(n) for each in metadata for n in range(each.num_row_groups)]
    row_bytes: float = sum(group.total_byte_size for group in groups) / max(rows, 1)
    windows = max(1, math.ceil(row_bytes * found.rows / WINDOW_BYTES))
    return max(1, math.ceil((found.end_offset - found.start_offset) / windows))


def _compare(found: ArchivedRange, batches: Iterator[pa.RecordBatch], where: str) -> Iterator[str]:
    digest = RowsDigest()
    last: Offset = found.start_offset - 1
    for batch in batches:
        offsets = batch.column("offset")
        joined = pa.concat_arrays([pa.array([last], pa.int64()), offsets])
        if not pc.all(pc.greater(joined.slice(1), joined.slice(0, len(offsets)))).as_py():
            yield f"{where}: the offsets of {found} do not rise"
            return
        last = offsets[-1].as_py()
        digest.add(batch)
    if last >= found.end_offset:
        yield f"{where}: there are rows up to offset {last}, beyond {found}"
    elif digest.rows != found.rows:
        yield f"{where}: {digest.rows} rows of {found}, and {found.rows} were archived"
    elif digest.text() != found.digest:
        yield f"{where}: the rows of {found} are not those that were archived"


def _others(paths: tuple[str, ...], moved_rows: int) -> Iterator[str]:
    """Files that no commit knows may hold what ranges lack, and nothing else."""
    rows = 0
    for path in paths:
        try:
            rows += pq.read_metadata(path).num_rows
        except (OSError, pa.ArrowException) as error:
            yield f"{path} is in no commit and cannot be read: {error}"
            return
    if rows > moved_rows:
        names = ", ".join(path.rpartition("/")[2] for path in paths[:3])
        yield (
            f"{rows - moved_rows} rows too many, in {len(paths)} files that are in no commit: "
            f"{names}{', ...' if len(paths) > 3 else ''}"
        )


class _Reread(NamedTuple):
    found: ArchivedRange
    options: SourceOptions


def compare_with_brokers(
    table: Table, options: SourceOptions, earliest: dict[TopicPartition, Offset], run: Run
) -> tuple[int, list[str]]:
    """Read again from the brokers what they still hold: how many ranges were compared, and which
    differ. On a compacted topic they may. To compare none is no proof."""
    ranges = [found for commit in table.commits() for found in commit.ranges]
    wanted = [
        _Reread(found, options)
        for found in ranges
        if found.start_offset >= earliest.get(found.of, found.end_offset)
    ]
    if ranges and not wanted:
        return 0, [f"the brokers hold none of {len(ranges)} ranges any more: nothing was compared"]
    return len(wanted), [text for texts in run(_reread, wanted) for text in texts]


def _reread(reread: _Reread) -> list[str]:
    found = reread.found
    digest = RowsDigest()
    wanted = OffsetRange(found.of, found.start_offset, found.end_offset)
    for batch in read_range(wanted, reread.options):
        digest.add(batch)
    if (digest.rows, digest.text()) == (found.rows, found.digest):
        return []
    return [
        f"the brokers have {digest.rows} other rows of {found}, where {found.rows} are archived"
    ]


__all__ = ["Coverage", "MalformedCommit", "Verified", "compare_with_brokers", "verify"]
