"""Topics into a table, each record once, whatever is killed in between.

Where to go on stands in the table itself, in the same commit that brought the rows before: there
is no second place that could disagree with it. A batch that was not committed is read again and
written into new files; nothing refers to the old ones.
"""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidelog.client import TopicPartition
from tidelog.spark.offset_finder import OffsetFinder
from tidelog.spark.offsets import PartitionOffsets
from tidelog.spark.pipelines.archive_commit import Commit
from tidelog.spark.pipelines.archive_rows import COLUMNS, ArchiveTask, archive_range
from tidelog.spark.pipelines.archive_table import PREFIX, NotAnArchive, Table
from tidelog.spark.pipelines.tasks import Run, TaskFailed, run_here
from tidelog.spark.planner import (
    DataLoss,
    OffsetRange,
    limit_offsets,
    offset_changed,
    partitions_deleted,
    split_ranges,
)
from tidelog.spark.source_options import Assign, SourceOptions, Strategy, Subscribe
from tidelog.types import format_uuid

OFFSETS_PER_BATCH = 5_000_000
OFFSETS_PER_FILE = 1_000_000
ATTEMPTS_MAX = 3
"""To plan a batch of which records are lost while it is read."""
TOPIC_IN_NAME_MAX = 100
"""So much of a topic's name goes into a file's: file systems take 255 characters."""


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions:
    """What to archive, and in what pieces."""

    source: SourceOptions
    offsets_per_batch: int = OFFSETS_PER_BATCH
    offsets_per_file: int = OFFSETS_PER_FILE
    compression: str = "zstd"


class Archived(NamedTuple):
    """A batch that was committed."""

    commit: Commit
    lag: int
    """Offsets that the brokers had more when it was planned."""


class _Plan(NamedTuple):
    starts: PartitionOffsets
    begin: PartitionOffsets
    end: PartitionOffsets
    lost: tuple[OffsetRange, ...]
    lag: int


class Archive:
    """An archive that runs; use it as a context, which holds the table's lock."""

    def __init__(self, options: ArchiveOptions, table: Table, run: Run = run_here) -> None:
        # Tasks never skip: what is lost must be known here, for the commit says it.
        self._strict = replace(options.source, columns=COLUMNS, fail_on_data_loss=True)
        self.options = options
        self.table = table
        self.run_id = uuid.uuid4().hex
        self._run = run
        self._finder = OffsetFinder(self._strict)
        self.is_committing = False
        """Whoever wants to interrupt had better wait for this moment to pass."""
        self._directory = ""
        self._last: Commit | None = None

    def __enter__(self) -> Archive:
        self._directory = self.table.begin_run(self.run_id)
        try:
            self._last = self.table.last_commit()
            self._check_isolation()
        except BaseException:
            self.table.end_run()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.table.end_run()

    @property
    def last(self) -> Commit | None:
        """The last commit, of this run or one before."""
        return self._last

    @property
    def _isolation(self) -> str:
        return self._strict.isolation.name.lower()

    def _check_isolation(self) -> None:
        if self._last is not None and self._last.isolation != self._isolation:
            raise NotAnArchive(
                f"{self.table.path} was begun with the isolation level {self._last.isolation}: go "
                f"on with it, or archive as {self._isolation} into another table"
            )

    def latest(self) -> PartitionOffsets:
        """What the brokers have now."""
        self._finder.existing_partitions()
        return self._finder.latest({})

    def archive_next(self, until: PartitionOffsets | None = None) -> Archived | None:
        """Archive one batch, of offsets below `until` if that is given; None if there is nothing
        new. Raises DataLoss, TaskFailed, CommittedByOther and what the brokers answer."""
        for attempt in range(ATTEMPTS_MAX):
            plan = self._plan(until)
            # The first commit pins where the archive begins, even if nothing is there yet.
            if plan.begin == plan.end and not plan.lost and self._last is not None:
                return None
            try:
                commit = self._archive(plan)
            except (TaskFailed, DataLoss):
                # Retention may have been faster than the tasks; then the next plan says so.
                if self.options.source.fail_on_data_loss or attempt == ATTEMPTS_MAX - 1:
                    raise
                continue
            self.is_committing = True
            try:
                self.table.commit(commit)
                self._last = commit
            finally:
                self.is_committing = False
            return Archived(commit, plan.lag)
        raise AssertionError("the last attempt returns or raises")

    def _plan(self, until: PartitionOffsets | None) -> _Plan:
        known = dict(self._last.ends) if self._last else {}
        starts = dict(self._last.starts) if self._last else {}
        partitions = self._finder.partitions() if known else self._finder.existing_partitions()
        self._check_topics()
        lenient = not self.options.source.fail_on_data_loss
        gone = {p for p in known.keys() - partitions if _covers(self._strict.strategy, p)}
        if gone and not lenient:
            raise partitions_deleted(gone)
        new = partitions - known.keys()
        earliest = self._finder.earliest(partitions)
        if not known:
            starts |= self._finder.find(self._strict.starting, "starting")
        else:
            starts |= {partition: earliest[partition] for partition in new}
        # Others are of earlier runs, or gone by permission: nobody waits for their return.
        here = {p: offset for p, offset in known.items() if p in partitions}
        latest = {p: o for p, o in self._finder.latest(here).items() if p in partitions}
        begin, lost = dict(known), []
        for partition in sorted(latest):
            at = known.get(partition, starts[partition])
            if latest[partition] < at:
                raise offset_changed(OffsetRange(partition, at, latest[partition]))
            begin[partition] = max(at, earliest.get(partition, at))
            if begin[partition] > at:
                lost.append(OffsetRange(partition, at, begin[partition]))
        if lost and not lenient:
            raise _retention_won(lost)
        ends = begin | {
            p: max(begin[p], min(o, (until or latest).get(p, 0))) for p, o in latest.items()
        }
        end = limit_offsets(self.options.offsets_per_batch, begin, ends)
        lag = sum(offset - end[partition] for partition, offset in latest.items())
        return _Plan(starts, begin, end, tuple(lost), lag)

    def _check_topics(self) -> None:
        """A topic that was deleted and created again has other records under the same offsets."""
        for topic, topic_id in self._topic_ids().items():
            before = self._last.topic_ids.get(topic, topic_id) if self._last else topic_id
            if before != topic_id:
                raise NotAnArchive(
                    f"topic {topic} was deleted and created again since {self.table.path} was "
                    "begun: archive it into another table"
                )

    def _topic_ids(self) -> dict[str, str]:
        return {topic: format_uuid(found) for topic, found in self._finder.topic_ids.items()}

    def _archive(self, plan: _Plan) -> Commit:
        batch = self._last.batch + 1 if self._last else 0
        ranges = split_ranges(
            [OffsetRange(p, plan.begin[p], plan.end[p]) for p in sorted(plan.begin)],
            None,
            self.options.offsets_per_file,
        )
        tasks = [
            ArchiveTask(
                wanted,
                self._strict,
                self._directory,
                file_stem(batch, wanted.partition, wanted.start_offset),
                self.options.compression,
            )
            for wanted in ranges
        ]
        before = dict(self._last.topic_ids) if self._last else {}
        return Commit(
            batch=batch,
            run=self.run_id,
            isolation=self._isolation,
            written_ms=time.time_ns() // 1_000_000,
            topic_ids=before | self._topic_ids(),
            starts=plan.starts,
            ends=plan.end,
            ranges=tuple(self._run(archive_range, tasks)),
            lost=plan.lost,
        )


def _covers(strategy: Strategy, partition: TopicPartition) -> bool:
    """Whether this run was asked for the partition; an archive may hold others of earlier runs."""
    match strategy:
        case Assign(partitions):
            return partition in partitions
        case Subscribe(topics):
            return partition.topic in topics
    return re.search(strategy.pattern, partition.topic) is not None


def file_stem(batch: int, partition: TopicPartition, start_offset: int) -> str:
    """For people; what counts stands in the commit."""
    topic = partition.topic[:TOPIC_IN_NAME_MAX]
    return f"{PREFIX}{batch:08d}-{topic}-{partition.partition}-{start_offset:020d}"


def _retention_won(lost: list[OffsetRange]) -> DataLoss:
    ranges = ", ".join(f"[{r.start_offset}, {r.end_offset}) of {r.partition}" for r in lost)
    return DataLoss(
        "COULD_NOT_READ_OFFSET_RANGE",
        f"Records of {ranges} were deleted before they were archived.",
    )
