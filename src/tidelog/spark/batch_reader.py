"""`spark.read.format("tidelog")`: everything between two offsets of each partition."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from tidelog.client.cluster import TopicPartition
from tidelog.spark.offset_finder import OffsetFinder
from tidelog.spark.offsets import PartitionOffsets
from tidelog.spark.options import OptionError, Options, boolean
from tidelog.spark.planner import (
    DataLoss,
    OffsetRange,
    offset_changed,
    partitions_deleted,
    split_ranges,
)
from tidelog.spark.schema import SPARK_TYPES
from tidelog.spark.source_options import THE_SOURCE, SourceOptions, batch_options
from tidelog.spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from tidelog.spark.filters import PushedFilters

log = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """A task's ranges, on their way to an executor."""

    def __init__(self, *wanted: OffsetRange) -> None:
        super().__init__([tuple(found) for found in wanted])

    @property
    def wanted(self) -> list[OffsetRange]:
        return [OffsetRange(TopicPartition(*place), *offsets) for place, *offsets in self.value]


def read_partition(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """What a task does. Where there is nothing to read Spark makes an empty partition."""
    # Here, for only executors need it: a driver's process for a stream starts sooner without.
    from tidelog.spark.range_reader import read_range

    settle()
    if isinstance(partition, RangePartition):
        for wanted in partition.wanted:
            yield from read_range(wanted, options)


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        return self._plan(None)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows."""
        return read_partition(partition, self.options)

    def _plan(self, pushed: PushedFilters | None) -> list[InputPartition]:
        options = self.options
        finder = OffsetFinder(options)
        start = finder.find(options.starting, "starting")
        ranges = self._ranges(start, finder.find(options.ending, "ending"))
        if pushed is not None:
            ranges = pushed.narrow(ranges, finder)
        ranges = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(wanted) for wanted in ranges]

    def _ranges(self, start: PartitionOffsets, end: PartitionOffsets) -> list[OffsetRange]:
        """Topics that were created since the start was found are not part of the batch."""
        ranges = []
        if deleted := start.keys() - end.keys():
            self._report(partitions_deleted(deleted))
        for partition in sorted(start.keys() & end.keys()):
            found = OffsetRange(partition, start[partition], end[partition])
            if found.size < 0:
                self._report(offset_changed(found))
            elif found.size:
                ranges.append(found)
        return ranges

    def _report(self, loss: DataLoss) -> None:
        if self.options.fail_on_data_loss:
            raise loss
        log.warning("%s", loss.reason)


class FilteringBatchReader(BatchReader):
    """With `pushFilters`. Spark fails every query of a reader that could take filters while
    its own setting is off, so this is a class of its own."""

    def __init__(self, options: SourceOptions) -> None:
        from tidelog.spark.filters import PushedFilters

        super().__init__(options)
        self.pushed = PushedFilters()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Those that Spark has to apply itself."""
        return self.pushed.take(filters)

    def partitions(self) -> list[InputPartition]:
        return self._plan(self.pushed)


def batch_reader(options: Options, schema: StructType) -> BatchReader:
    """The reader that the options ask for."""
    parsed = batch_options(options)
    refuse_schema(schema, parsed.columns)
    kind = FilteringBatchReader if boolean(options, "pushFilters", False) else BatchReader
    return kind(parsed)


def refuse_schema(schema: StructType, columns: tuple[str, ...]) -> None:
    """OptionError for a schema of the user's own."""
    declared = tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
    ours = tuple(
        (name, SPARK_TYPES[name].replace(": ", ":").replace(", ", ",")) for name in columns
    )
    if declared != ours:
        raise OptionError(
            f"{THE_SOURCE} has a fixed schema and cannot be set with a custom one; "
            "to read fewer columns use the option columns"
        )
