"""Plans what to read: offset ranges for tasks, and how far a micro-batch goes. Nothing here asks
a broker; the arithmetic is that of Spark's Kafka source, so that both plan the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tidelog.client import TopicPartition
from tidelog.spark.offsets import PartitionOffsets, named
from tidelog.types import Offset

LONG_MAX = (1 << 63) - 1
BISECTIONS = 3
"""To find how far a number of bytes reaches: each asks the brokers."""

ADVICE = (
    "Some data may have been lost because they are not available in Kafka any more; either the "
    "data was aged out or the topic may have been deleted before all the data in the topic was "
    "processed. If you don't want your query to fail on such cases, set the source option "
    "failOnDataLoss to false. Reason: "
)


class OffsetRange(NamedTuple):
    """What one task reads: [start_offset, end_offset) of a partition."""

    partition: TopicPartition
    start_offset: Offset
    end_offset: Offset

    @property
    def size(self) -> int:
        """Of offsets; a compacted partition has fewer records."""
        return self.end_offset - self.start_offset


class DataLoss(Exception):
    """Records that the query had to read are gone; `failOnDataLoss` is true."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"[KAFKA_DATA_LOSS.{kind}] {ADVICE}{reason}")
        self.kind = kind
        self.reason = reason


class Plan(NamedTuple):
    """The ranges between two offsets, and what was found to be lost on the way."""

    ranges: list[OffsetRange]
    losses: list[DataLoss]


def plan_ranges(
    start: PartitionOffsets, end: PartitionOffsets, earliest_of_new: PartitionOffsets
) -> Plan:
    """What lies between two offsets of a stream. A partition that start does not know is new
    and read from its earliest offset; one without such an offset was deleted meanwhile."""
    new = end.keys() - start.keys()
    losses = []
    if missing := new - earliest_of_new.keys():
        reason = f"Cannot find initial offsets for partitions {named(missing)}. "
        losses.append(
            DataLoss(
                "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", f"{reason}They may have been deleted."
            )
        )
    for partition in sorted(new & earliest_of_new.keys()):
        if earliest_of_new[partition]:
            losses.append(
                DataLoss(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"Added partition {partition} starts from {earliest_of_new[partition]} "
                    "instead of 0.",
                )
            )
    if deleted := start.keys() - end.keys():
        losses.append(partitions_deleted(deleted))
    begin = start | {p: offset for p, offset in earliest_of_new.items() if p in new}
    ranges = []
    for partition in sorted(end.keys() & begin.keys()):
        found = OffsetRange(partition, begin[partition], end[partition])
        if found.size < 0:
            losses.append(offset_changed(found))
        elif found.size:
            ranges.append(found)
    return Plan(ranges, losses)


def partitions_deleted(partitions: Iterable[TopicPartition]) -> DataLoss:
    """They were there before."""
    reason = f"Partitions {named(partitions)} have been deleted."
    return DataLoss("PARTITIONS_DELETED", reason)


def offset_changed(found: OffsetRange) -> DataLoss:
    """A range that goes backwards."""
    return DataLoss(
        "PARTITION_OFFSET_CHANGED",
        f"Partition {found.partition} offset was changed from {found.start_offset} to "
        f"{found.end_offset}. This could be either 1) a user error that the start offset is set "
        "beyond available offset when starting query, or 2) the kafka topic-partition is deleted "
        "and re-created.",
    )


def range_lost(lost: OffsetRange, why: str) -> DataLoss:
    """Records that had to be there."""
    return DataLoss(
        "COULD_NOT_READ_OFFSET_RANGE",
        f"Could not read records in offset [{lost.start_offset}, {lost.end_offset}) for topic "
        f"partition {lost.partition}: {why}.",
    )


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Cut ranges so that none has more than max_records offsets and there are about
    min_partitions of them: large ones are cut, small ones stay whole."""
    divided = [found for found in ranges if found.size > 0]
    if max_records is not None:
        divided = [
            part
            for found in divided
            for part in _divide(found, math.ceil(found.size / max_records))
        ]
    if min_partitions is None or min_partitions <= len(divided):
        return divided
    total = sum(found.size for found in divided)
    whole = [found for found in divided if _part_count(found.size, total, min_partitions) == 1]
    # By partition, as Spark has it: if one piece of a partition stays whole, all of them do.
    whole_partitions = {found.partition for found in whole}
    rest = total - sum(found.size for found in whole)
    wanted = max(min_partitions - len(whole), 1)
    return [
        part
        for found in divided
        for part in (
            [found]
            if found.partition in whole_partitions
            else _divide(found, _part_count(found.size, rest, wanted))
        )
    ]


def gather_ranges(ranges: Iterable[OffsetRange], offsets_min: int) -> list[tuple[OffsetRange, ...]]:
    """Put small ranges together, in their order, until each task has at least so many offsets; the
    last may have fewer."""
    tasks: list[tuple[OffsetRange, ...]] = []
    gathered: tuple[OffsetRange, ...] = ()
    for found in ranges:
        gathered += (found,)
        if sum(each.size for each in gathered) >= offsets_min:
            tasks.append(gathered)
            gathered = ()
    return [*tasks, gathered] if gathered else tasks


def _part_count(size: int, total: int, min_partitions: int) -> int:
    """Java's round: halves go up."""
    return max(math.floor(size / total * min_partitions + 0.5), 1)


def _divide(found: OffsetRange, parts: int) -> list[OffsetRange]:
    divided = []
    start = found.start_offset
    left = found.size
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        if size:
            divided.append(OffsetRange(found.partition, start, start + size))
        start += size
    return divided


def limit_offsets(
    limit: int, start: Mapping[TopicPartition, Offset], end: PartitionOffsets
) -> PartitionOffsets:
    """How far `limit` offsets reach, shared out in proportion to what each partition has; a
    small one is not starved. `start` knows new partitions too, from their earliest offset."""
    sizes = _sizes(start, end)
    total = float(sum(sizes.values()))
    limited = dict(end)
    for partition, size in sizes.items():
        share = limit * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(end[partition], start[partition] + min(count, LONG_MAX))
    return limited


def limit_bytes(
    limit: int,
    start: Mapping[TopicPartition, Offset],
    end: PartitionOffsets,
    bytes_per_offset: Callable[[PartitionOffsets], Mapping[TopicPartition, float]],
) -> PartitionOffsets:
    """How far about `limit` stored bytes reach, the same share of every partition, and at least
    one offset. bytes_per_offset tells what an offset takes at some place of each; it is asked
    where the range begins and where it would end, and some more if records grow in between."""
    unread = {p: offset for p, offset in start.items() if end.get(p, offset) > offset}
    at_start = bytes_per_offset(unread)

    def bytes_of(share: float) -> float:
        reached = _share_of(share, unread, end)
        at_end = bytes_per_offset({p: offset - 1 for p, offset in reached.items()})
        return sum(
            (offset - unread[p]) * (at_start.get(p, 0.0) + at_end.get(p, 0.0)) / 2
            for p, offset in reached.items()
        )

    weight = sum((end[p] - offset) * at_start.get(p, 0.0) for p, offset in unread.items())
    low, high = 0.0, min(1.0, limit / weight) if weight else 1.0
    high_bytes = bytes_of(high)
    if high_bytes <= limit:
        return end | _share_of(high, unread, end)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        middle_bytes = bytes_of(middle)
        if middle_bytes <= limit:
            low = middle
        else:
            high, high_bytes = middle, middle_bytes
    return end | _share_of(max(low, high * limit / high_bytes), unread, end)


def _share_of(share: float, start: PartitionOffsets, end: PartitionOffsets) -> PartitionOffsets:
    return {
        partition: offset + max(1, math.floor((end[partition] - offset) * share))
        for partition, offset in start.items()
    }


def _sizes(
    start: Mapping[TopicPartition, Offset], end: PartitionOffsets
) -> dict[TopicPartition, int]:
    """Of partitions that have something to read."""
    return {
        partition: offset - start[partition]
        for partition, offset in end.items()
        if partition in start and offset > start[partition]
    }


def new_records(start: PartitionOffsets, end: PartitionOffsets) -> int:
    """What minOffsetsPerTrigger is compared with; a new partition counts from 0."""
    return sum(offset - start.get(partition, 0) for partition, offset in end.items())
