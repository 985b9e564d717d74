"""Where a scan starts and ends: what the options ask for, answered by the files."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.client import TopicPartition
from tidelog.client.offsets import EARLIEST, LATEST
from tidelog.env import Disk
from tidelog.spark.offsets import (
    AtEnd,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    PartitionOffsets,
    Position,
    named,
)
from tidelog.spark.options import OptionError
from tidelog.spark.planner import DataLoss, OffsetRange, offset_changed, range_lost
from tidelog.spark.scan_plan import LogLayout
from tidelog.spark.scan_transactions import headers_from, last_stable_offset
from tidelog.types import Offset
from tidelog.wire.batch_reader import read_records

Layouts = Mapping[TopicPartition, LogLayout]


def end_offsets(disk: Disk, layouts: Layouts, read_committed: bool) -> PartitionOffsets:
    """What "latest" means."""
    if not read_committed:
        return {partition: layout.end_offset for partition, layout in layouts.items()}
    # A transaction may be open since before what was deleted.
    return {
        partition: max(layout.start_offset, last_stable_offset(disk, layout))
        for partition, layout in layouts.items()
    }


def resolve(
    disk: Disk,
    position: Position,
    layouts: Layouts,
    ends: PartitionOffsets,
    which: str,
    *,
    latest_without_match: bool,
) -> PartitionOffsets:
    """Real offsets of all partitions; `which` is "starting" or "ending"."""
    match position:
        case AtEnd(end):
            wanted = dict.fromkeys(layouts, end)
        case AtOffsets(offsets):
            _require_all(offsets, layouts, f"{which}Offsets")
            wanted = dict(offsets)
        case AtTimestamps(timestamps):
            _require_all(timestamps, layouts, f"{which}OffsetsByTimestamp")
            wanted = _by_time(disk, timestamps, layouts, ends, which, latest_without_match)
        case AtTimestamp(timestamp):
            same = dict.fromkeys(layouts, timestamp)
            wanted = _by_time(disk, same, layouts, ends, which, latest_without_match)
    starts = {partition: layout.start_offset for partition, layout in layouts.items()}
    known = {EARLIEST: starts, LATEST: ends}
    return {
        partition: known[offset][partition] if offset in known else offset
        for partition, offset in wanted.items()
    }


def _by_time(
    disk: Disk,
    timestamps: Mapping[TopicPartition, int],
    layouts: Layouts,
    ends: PartitionOffsets,
    which: str,
    latest_without_match: bool,
) -> PartitionOffsets:
    found: PartitionOffsets = {}
    for partition, timestamp in timestamps.items():
        offset = offset_of_time(disk, layouts[partition], timestamp)
        if offset is not None and offset >= ends[partition]:
            offset = None  # as a broker answers: of what a reader may not see yet, it says nothing
        if offset is None and which == "starting" and not latest_without_match:
            raise OptionError(
                f"partition {partition} has no record of {timestamp} ms or later; set "
                "startingOffsetsByTimestampStrategy to latest to start such partitions at their end"
            )
        found[partition] = LATEST if offset is None else offset
    return found


def offset_of_time(disk: Disk, layout: LogLayout, timestamp: int) -> Offset | None:
    """Of the first record of that time or later."""
    start = layout.start_offset
    for segment, position, header in headers_from(disk, layout, start):
        if header.max_timestamp < timestamp:
            continue
        for record in read_records(segment.batch_at(position)):
            if record.timestamp >= timestamp and record.offset >= start:
                return record.offset
    return None


def available(
    wanted: OffsetRange, layout: LogLayout, end_offset: Offset
) -> tuple[OffsetRange, list[DataLoss]]:
    """What a scan can read of a range, and what of it is lost, as the source would find it."""
    if wanted.size < 0:
        return wanted._replace(end_offset=wanted.start_offset), [offset_changed(wanted)]
    first = min(max(wanted.start_offset, layout.start_offset), wanted.end_offset)
    end = max(min(wanted.end_offset, end_offset), first)
    losses = []
    if first > wanted.start_offset:
        why = f"the log begins at offset {layout.start_offset}"
        losses.append(range_lost(wanted._replace(end_offset=first), why))
    if end < wanted.end_offset:
        why = f"the log ends at offset {layout.end_offset}"
        if end_offset < layout.end_offset:
            why = f"a transaction is open since offset {end_offset}"
        losses.append(range_lost(wanted._replace(start_offset=end), why))
    return wanted._replace(start_offset=first, end_offset=end), losses


def _require_all(specified: Mapping[TopicPartition, int], layouts: Layouts, name: str) -> None:
    if specified.keys() != layouts.keys():
        raise OptionError(
            f"{name} must name all partitions that are scanned, and no others; use -1 for latest, "
            f"-2 for earliest. Specified: {named(specified)}; there: {named(layouts)}"
        )
