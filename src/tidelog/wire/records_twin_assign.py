"""The twin's choice of partitions: by key as Java's producer does, else in turn."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.wire.records_twin_columns import RowReader, integers
from tidelog.wire.records_types import AssignedRows, Columns, IntColumn, Placement, RowGroup

if TYPE_CHECKING:
    from typing_extensions import Buffer

TARGETS_MAX = 1 << 24
"""Partitions of all topics together."""


def murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as an unsigned number."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    size = len(data)
    hashed = 0x9747B28C ^ size
    whole = size & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        hashed = (hashed * factor & mask) ^ word
    if size > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * factor & mask
    hashed = (hashed ^ hashed >> 13) * factor & mask
    return hashed ^ hashed >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Where every record of this key belongs."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class _Turn:
    """A topic's placement while rows are assigned."""

    def __init__(self, placement: Placement) -> None:
        self.partition_count = placement.partition_count
        self._available = memoryview(placement.available).cast("B")
        self._available = self._available[: len(self._available) // 4 * 4].cast("i")
        self._turn_bytes = placement.turn_bytes
        self.turn = placement.turn
        self.taken_bytes = placement.taken_bytes
        if not 1 <= self.partition_count <= TARGETS_MAX:
            raise ValueError(f"a topic of {self.partition_count} partitions")
        if not 0 <= self.turn < len(self._available):
            raise ValueError("it is nobody's turn")

    def take(self, size: int) -> int:
        """The partition of a row of this size that has neither a choice nor a key."""
        partition = self._available[self.turn]
        if not 0 <= partition < self.partition_count:
            raise ValueError(f"partition {partition} of {self.partition_count} has its turn")
        self.taken_bytes += size
        if self.taken_bytes >= self._turn_bytes:
            self.taken_bytes = 0
            self.turn = (self.turn + 1) % len(self._available)
        return partition


def assign_rows(
    columns: Columns,
    chosen: IntColumn | None,
    topics: Buffer | None,
    placements: Sequence[Placement],
    /,
) -> AssignedRows:
    """Give each row its partition."""
    rows = columns.rows
    if not 0 <= rows <= 0x7FFFFFFF:
        raise ValueError("the count of rows is out of range")
    keys, values = RowReader(columns.keys, rows), RowReader(columns.values, rows)
    choices = _ChosenReader(chosen, rows)
    topic_of = None if topics is None else integers(topics, "i", rows)
    if not placements:
        raise ValueError("rows need a placement")
    turns = [_Turn(placement) for placement in placements]
    target_count = sum(turn.partition_count for turn in turns)
    if target_count > TARGETS_MAX:
        raise ValueError(f"rows for {target_count} partitions")
    if topics is None and len(turns) != 1:
        raise ValueError(f"rows without a topic, and {len(turns)} placements")
    targets: dict[tuple[int, int], list[int]] = {}
    for row in range(rows):
        topic = 0 if topic_of is None else topic_of[row]
        if not 0 <= topic < len(turns):
            raise ValueError(f"row {row} has topic {topic} of {len(turns)}")
        turn = turns[topic]
        key, choice = keys.field(row), choices.at(row)
        if choice is not None:
            if not 0 <= choice < turn.partition_count:
                return AssignedRows(b"", [], row)
            partition = choice
        elif key is not None:
            partition = partition_of_key(key, turn.partition_count)
        else:
            partition = turn.take(len(values.field(row) or b""))
        targets.setdefault((topic, partition), []).append(row)
    for placement, turn in zip(placements, turns, strict=True):
        placement.turn, placement.taken_bytes = turn.turn, turn.taken_bytes
    return _grouped(targets)


def _grouped(targets: dict[tuple[int, int], list[int]]) -> AssignedRows:
    order: list[int] = []
    groups = []
    for (topic, partition), found in sorted(targets.items()):
        groups.append(RowGroup(topic, partition, len(order), len(order) + len(found)))
        order += found
    return AssignedRows(bytes(memoryview(array("i", order)).cast("B")), groups, -1)


class _ChosenReader:
    def __init__(self, column: IntColumn | None, rows: int) -> None:
        self._column = column
        if column is None:
            return
        self._values = integers(column.values, "i", rows)
        if column.validity is not None:
            self._validity = memoryview(column.validity).cast("B")
            start = column.validity_start
            if start < 0 or len(self._validity) * 8 < start + rows:
                raise ValueError("a validity bitmap has fewer bits than there are rows")

    def at(self, row: int) -> int | None:
        column = self._column
        if column is None:
            return None
        if column.validity is not None:
            bit = column.validity_start + row
            if not self._validity[bit >> 3] >> (bit & 7) & 1:
                return None
        return self._values[row]
