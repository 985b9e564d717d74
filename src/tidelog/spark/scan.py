"""`scan`: reads the segment files of a data directory, or of a copy, without a broker.

    spark.read.format("tidelog").option("subscribe", "orders").load("data")

Rows and columns are the source's. Nothing is written; a node may run on the directory meanwhile.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, InputPartition

from tidelog.client import TopicPartition
from tidelog.client.offsets import IsolationLevel
from tidelog.spark.batch_reader import refuse_schema
from tidelog.spark.options import OptionError, Options, boolean, integer, refuse_unknown
from tidelog.spark.planner import OffsetRange
from tidelog.spark.scan_files import NoSuchLog, ReadOnlyDisk, ScannedLog, find_logs
from tidelog.spark.scan_offsets import available, end_offsets, resolve
from tidelog.spark.scan_plan import ScanRange, group_small, lay_out, ranges_of
from tidelog.spark.scan_read import ScanRules, read_ranges
from tidelog.spark.source_options import (
    ENDING,
    STRATEGIES,
    Assign,
    SourceOptions,
    Strategy,
    Subscribe,
    batch_options,
)
from tidelog.spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger = logging.getLogger(__name__)

PATH = "path"
USE_INDEX = "useIndex"
BYTES_PER_PARTITION = "maxBytesPerPartition"
ISOLATION = "kafka.isolation.level"
KNOWN = (
    *STRATEGIES,
    *ENDING,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "includeHeaders",
    "columns",
    PATH,
    USE_INDEX,
    BYTES_PER_PARTITION,
)
INTERNAL_TOPICS = frozenset({"__cluster_metadata", "__consumer_offsets", "__transaction_state"})
"""Scanned by those who name them."""

PARTITION_BYTES = 64 << 20
"""Of a task: half a second's work, so that the cost of starting it does not count."""
SMALL_BYTES = 4 << 20
"""Below it, ranges share a task."""


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """What a query asked for."""

    path: str
    source: SourceOptions
    """What a scan has in common with the source; its brokers are never asked."""
    use_index: bool
    bytes_per_partition: int

    @property
    def read_committed(self) -> bool:
        return self.source.isolation is IsolationLevel.READ_COMMITTED

    @property
    def rules(self) -> ScanRules:
        source = self.source
        return ScanRules(source.columns, self.read_committed, source.fail_on_data_loss)


def scan_options(options: Options) -> ScanOptions:
    """OptionError names what is wrong."""
    refuse_unknown(options, KNOWN, "a scan of files (option path)")
    for name in options:
        if name.lower().startswith("kafka.") and name.lower() != ISOLATION:
            raise OptionError(
                f"path reads files without a broker, which has no use for {name}; of kafka.*, a "
                f"scan knows {ISOLATION}"
            )
    shared = CaseInsensitiveDict(options)
    for name in (PATH, USE_INDEX, BYTES_PER_PARTITION):
        shared.pop(name, None)
    if not any(name in shared for name in STRATEGIES):
        shared["subscribePattern"] = ".*"
    shared.setdefault(ISOLATION, "read_committed")
    shared["kafka.bootstrap.servers"] = "none"
    size = integer(options, BYTES_PER_PARTITION, PARTITION_BYTES, minimum=1)
    assert size is not None
    return ScanOptions(
        path=_local_path(options[PATH]),
        source=batch_options(shared),
        use_index=boolean(options, USE_INDEX, True),
        bytes_per_partition=size,
    )


def _local_path(text: str) -> str:
    """An absolute path without a final slash."""
    scheme, separator, _ = text.partition(":/")
    if separator and "/" not in scheme and scheme != "file":
        raise OptionError(
            f"path is {text!r}: a scan reads a directory that every executor has mounted"
        )
    plain = re.sub(r"\Afile:/+", "/", text)
    if not plain.strip():
        raise OptionError("path is empty: name a data directory")
    return os.path.abspath(plain)  # noqa: PTH100


class ScanPartition(InputPartition):
    """A task's ranges, on their way to an executor."""

    def __init__(self, ranges: tuple[ScanRange, ...]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class ScanReader(DataSourceReader):
    """Plans in the driver, reads in the executors."""

    def __init__(self, options: ScanOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Byte ranges, as many as the files are large."""
        return [ScanPartition(ranges) for ranges in plan(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Where there is nothing to read Spark makes an empty partition."""
        settle()
        if isinstance(partition, ScanPartition):
            yield from read_ranges(ReadOnlyDisk(), partition.ranges, self.options.rules)


def scan_reader(options: Options, schema: StructType) -> ScanReader:
    """What `spark.read` with the option `path` uses."""
    parsed = scan_options(options)
    refuse_schema(schema, parsed.source.columns)
    return ScanReader(parsed)


def plan(options: ScanOptions) -> list[tuple[ScanRange, ...]]:
    """For each task its ranges. Raises OptionError, NoSuchLog, MalformedFile, DamagedSegment and
    DataLoss."""
    disk, source = ReadOnlyDisk(), options.source
    logs = _wanted(list(find_logs(disk, options.path)), source.strategy, options.path)
    piece_bytes = _piece_bytes(disk, logs, options)
    layouts = {
        log.partition: lay_out(
            disk,
            log,
            piece_bytes,
            use_index=options.use_index,
            fail_on_data_loss=source.fail_on_data_loss,
        )
        for log in logs
    }
    ends = end_offsets(disk, layouts, options.read_committed)
    lenient = source.latest_without_match
    starting, ending = (
        resolve(disk, position, layouts, ends, which, latest_without_match=lenient)
        for position, which in ((source.starting, "starting"), (source.ending, "ending"))
    )
    pieces: list[ScanRange] = []
    for partition, layout in layouts.items():
        asked = OffsetRange(partition, starting[partition], ending[partition])
        wanted, losses = available(asked, layout, ends[partition])
        for loss in losses:
            if source.fail_on_data_loss:
                raise loss
            logger.warning("%s", loss.reason)
        pieces += ranges_of(layout, wanted)
    return list(group_small(pieces, min(SMALL_BYTES, piece_bytes)))


def _piece_bytes(disk: ReadOnlyDisk, logs: list[ScannedLog], options: ScanOptions) -> int:
    if options.source.min_partitions is None:
        return options.bytes_per_partition
    total = sum(disk.size(file.path) or 0 for log in logs for file in log.files(disk))
    share = math.ceil(total / options.source.min_partitions)
    return max(1, min(options.bytes_per_partition, share))


def _wanted(logs: list[ScannedLog], strategy: Strategy, path: str) -> list[ScannedLog]:
    found = {log.partition: log for log in logs}
    match strategy:
        case Assign(partitions):
            wanted = set(partitions)
            missing = sorted(map(str, wanted - found.keys()))
        case Subscribe(topics):
            wanted = {partition for partition in found if partition.topic in topics}
            missing = sorted(set(topics) - {partition.topic for partition in found})
        case _:
            pattern = re.compile(strategy.pattern)
            wanted = {partition for partition in found if _matches(pattern, partition)}
            missing = []
    if missing:
        names = ", ".join(sorted({partition.topic for partition in found} - INTERNAL_TOPICS))
        raise NoSuchLog(f"{path} has no {', '.join(missing)}; its topics are {names}")
    return [log for partition, log in sorted(found.items()) if partition in wanted]


def _matches(pattern: re.Pattern[str], partition: TopicPartition) -> bool:
    return partition.topic not in INTERNAL_TOPICS and bool(pattern.search(partition.topic))
