"""`spark.readStream.format("tidelog")`: micro-batches, on and on.

Spark keeps one reader in one process on the driver for as long as the query runs; `read` alone
happens on executors, on a copy of the reader as it was made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tidelog.client.blocking import now_ms
from tidelog.spark.batch_reader import RangePartition, read_partition, refuse_schema
from tidelog.spark.offset_finder import OffsetFinder
from tidelog.spark.offsets import PartitionOffsets, depends_on_time, from_json, named, to_json
from tidelog.spark.options import OptionError, Options
from tidelog.spark.planner import (
    DataLoss,
    gather_ranges,
    limit_bytes,
    limit_offsets,
    new_records,
    partitions_deleted,
    plan_ranges,
    split_ranges,
)
from tidelog.spark.source_options import TRIGGER_LIMITS, SourceOptions, stream_options
from tidelog.types import Uuid

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

LIMITS_SINCE = (4, 2)
"""The version of Spark since which a Python source can limit its micro-batches."""

TASK_OFFSETS_MIN = 1_000
"""A task takes longer to begin than to read so many records."""


class StreamPlanner:
    """Where a stream stands and how far its next micro-batch goes; the reader's own memory, for
    the driver's process alone."""

    def __init__(self, options: SourceOptions, clock: Callable[[], int] = now_ms) -> None:
        self.options = options
        self.finder = OffsetFinder(options)
        self.latest: PartitionOffsets = {}
        """As the brokers said last; nothing of partitions that are gone."""
        self.initial: PartitionOffsets | None = None
        """Where this query starts; None if it does not start but goes on."""
        self._clock = clock
        self._has_planned = False
        self._target: PartitionOffsets | None = None
        """Where an AvailableNow query ends."""
        self._is_available_now = False
        self._triggered_ms: int | None = None
        self._topic_ids: dict[str, Uuid] = {}

    def start(self) -> PartitionOffsets:
        """Where a new query starts. Spark asks more than once, and is told the same."""
        if self.initial is None:
            self.initial = self.finder.find(self.options.starting, "starting")
            log.info("initial offsets: %s", self.initial)
        return self.initial

    def stop_at_what_is_there(self) -> None:
        """For Trigger.AvailableNow: the end is settled when the first batch is planned."""
        self._is_available_now = True

    def next_end(self, start: PartitionOffsets, *, read_all: bool) -> PartitionOffsets:
        """Where the micro-batch that begins at start shall end; start itself for none."""
        self.latest = self._find_latest(start)
        self._look_for_new_topics()
        end = self._keep_gone(start, self.latest)
        is_first, self._has_planned = not self._has_planned, True
        if is_first and self._begins_anew(start):
            end = self._hold_latest(start, end)
        if read_all:
            return end
        if self._waits_for_more(start, end):
            return start
        return self._limit(start, end)

    def ranges(self, start: PartitionOffsets, end: PartitionOffsets) -> list[RangePartition]:
        """A micro-batch's tasks."""
        if not self._has_planned and self._begins_anew(start):
            start = self._repeat_beginning(start, end)
        if self._target is not None:
            self._check_target(end)
        new = self.finder.earliest(end.keys() - start.keys())
        plan = plan_ranges(start, end, new)
        for loss in plan.losses:
            self._report(loss)
        least, most = self.options.min_partitions, self.options.max_records_per_partition
        wanted = split_ranges(plan.ranges, least, most)
        if least is not None or most is not None:
            return [RangePartition(found) for found in wanted]
        return [RangePartition(*found) for found in gather_ranges(wanted, TASK_OFFSETS_MIN)]

    def _begins_anew(self, start: PartitionOffsets) -> bool:
        """Whether this is the first micro-batch of a new query whose start depends on when one
        asks."""
        options = self.options
        return start == self.initial and depends_on_time(
            options.starting, options.latest_without_match
        )

    def _hold_latest(self, start: PartitionOffsets, end: PartitionOffsets) -> PartitionOffsets:
        """Of partitions that start at their latest offset the first micro-batch reads nothing, nor
        of those that appeared since: it writes their start into the checkpoint, which Spark's
        Kafka source can do without a micro-batch. Were something read and the micro-batch repeated
        later, nobody would know any more where it began."""
        held = self.finder.at_latest
        return {p: start[p] if p in held else offset for p, offset in end.items() if p in start}

    def _repeat_beginning(self, start: PartitionOffsets, end: PartitionOffsets) -> PartitionOffsets:
        """Where that micro-batch begins if Spark repeats it, since it was not committed. What had
        started at the latest offset is found behind its end today, and had read nothing."""
        return {p: min(offset, end.get(p, offset)) for p, offset in start.items()}

    def _check_target(self, end: PartitionOffsets) -> None:
        """What was there when an AvailableNow query began is read to its end, so it has to be
        there still: a task would find out too, but only after having waited for it."""
        target = self._target or {}
        latest = self.finder.latest(end)
        if lost := target.keys() & end.keys() - latest.keys():
            self._report(
                DataLoss(
                    "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
                    f"Partitions {named(lost)} have been lost while the query ran with "
                    "Trigger.AvailableNow.",
                )
            )
        shrunk = {p for p in target.keys() & latest.keys() if latest[p] < end.get(p, 0)}
        if shrunk:
            self._report(
                DataLoss(
                    "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_"
                    "AVAILABLENOW",
                    f"Partitions {named(shrunk)} have become shorter while the query ran with "
                    "Trigger.AvailableNow: what it was to read is not there any more.",
                )
            )

    def _find_latest(self, start: PartitionOffsets) -> PartitionOffsets:
        if self._target is not None:
            return self._target
        # What was gone already is not waited for again, for every micro-batch.
        known = {p: start[p] for p in start.keys() & self.latest} if self._has_planned else start
        found = self.finder.latest(known)
        if self._is_available_now:
            self._target = found
        return found

    def _keep_gone(self, start: PartitionOffsets, latest: PartitionOffsets) -> PartitionOffsets:
        """Partitions that are gone stay where they were. Were they left out, and came back (a
        broker may forget a topic for a moment), they would be read from their beginning again."""
        gone = start.keys() - latest.keys()
        if gone:
            self._report(partitions_deleted(gone))
        return latest | {partition: start[partition] for partition in gone}

    def _look_for_new_topics(self) -> None:
        """A topic that was deleted and created anew has other records under the same offsets."""
        ids = self.finder.topic_ids
        anew = {
            name
            for name, topic_id in ids.items()
            if name in self._topic_ids and self._topic_ids[name] != topic_id
        }
        self._topic_ids |= ids
        if anew:
            partitions = {p for p in self.latest if p.topic in anew}
            reason = f"Partitions {named(partitions)} have been deleted and re-created."
            self._report(DataLoss("PARTITIONS_DELETED", reason))

    def _waits_for_more(self, start: PartitionOffsets, end: PartitionOffsets) -> bool:
        least = self.options.min_offsets_per_trigger
        # What an AvailableNow query leaves unread now, it would leave unread for good.
        if least is None or self._is_available_now:
            return False
        now = self._clock()
        delay = self.options.max_trigger_delay_ms
        waited = self._triggered_ms is None or now - self._triggered_ms >= delay
        if not waited and new_records(start, end) < least:
            return True
        self._triggered_ms = now
        return False

    def _limit(self, start: PartitionOffsets, end: PartitionOffsets) -> PartitionOffsets:
        offsets_max = self.options.max_offsets_per_trigger
        bytes_max = self.options.max_bytes_per_trigger
        if offsets_max is None and bytes_max is None:
            return end
        begin = start | self.finder.earliest(end.keys() - start.keys())
        if offsets_max is not None:
            end = limit_offsets(offsets_max, begin, end)
        if bytes_max is not None:
            end = limit_bytes(bytes_max, begin, end, self.finder.bytes_per_offset)
        return end

    def _report(self, loss: DataLoss) -> None:
        if self.options.fail_on_data_loss:
            raise loss
        log.warning("%s", loss.reason)


class UnlimitedStreamReader(DataSourceStreamReader):
    """For every version of Spark."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._planner: StreamPlanner | None = None
        self._end: PartitionOffsets | None = None

    @property
    def planner(self) -> StreamPlanner:
        """Made when it is first asked for: a reader travels to executors, a planner does not."""
        if self._planner is None:
            self._planner = StreamPlanner(self.options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts."""
        return to_json(self.planner.start())

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Spark 4.1 asks so, and does not say where a query stands that goes on."""
        start = self._end or self.planner.initial or {}
        self._end = self.planner.next_end(start, read_all=True)
        return to_json(self._end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks."""
        return self.planner.ranges(from_json(start), from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows."""
        return read_partition(partition, self.options)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the checkpoint is Spark's."""


def stream_reader(options: Options, schema: StructType) -> DataSourceStreamReader:
    """The reader that the options ask for, and this version of Spark can use."""
    parsed = stream_options(options)
    refuse_schema(schema, parsed.columns)
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version >= LIMITS_SINCE:
        from tidelog.spark.limited_stream import LimitedStreamReader

        return LimitedStreamReader(parsed)
    for name in TRIGGER_LIMITS:
        if options.get(name) is not None:
            raise OptionError(
                f"{name} needs Spark 4.2 or newer, and this is {pyspark.__version__}: "
                "before it, a Python source cannot limit its micro-batches"
            )
    return UnlimitedStreamReader(parsed)
