"""Filters that Spark pushes down, where the option `pushFilters` is true: what they say of topic,
partition, offset and timestamp narrows what is read at all.

Spark applies a filter no more that was taken over whole. One on the timestamp stays with it:
records need not be in the order of their times, so only what lies before the first record of a
time can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidelog.client import TopicPartition
from tidelog.client.offsets import NOT_FOUND
from tidelog.spark.offset_finder import OffsetFinder
from tidelog.spark.options import LONG_MAX
from tidelog.spark.planner import OffsetRange

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


class PushedFilters:
    """What all filters together leave to be read."""

    def __init__(self) -> None:
        self.offset_min = 0
        self.offset_end = LONG_MAX
        self.timestamp_min = 0
        """In milliseconds since 1970."""
        self._conditions: list[tuple[str, Filter]] = []

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Remember what can be used; those that Spark has to apply itself."""
        return [pushed for pushed in filters if not self._take(pushed)]

    def narrow(self, ranges: Iterable[OffsetRange], finder: OffsetFinder) -> list[OffsetRange]:
        """The parts of the ranges that may hold matching records."""
        narrowed = []
        for found in ranges:
            start = max(found.start_offset, self.offset_min)
            end = min(found.end_offset, self.offset_end)
            if start < end and self._admits(found.partition):
                narrowed.append(OffsetRange(found.partition, start, end))
        if not self.timestamp_min or not narrowed:
            return narrowed
        partitions = {found.partition for found in narrowed}
        firsts = finder.offsets_of_timestamp(partitions, self.timestamp_min)
        return [
            found._replace(start_offset=max(found.start_offset, firsts[found.partition]))
            for found in narrowed
            if NOT_FOUND != firsts[found.partition] < found.end_offset
        ]

    def _take(self, pushed: Filter) -> bool:
        column, value = _operands(pushed)
        match column, pushed:
            case name, IsNotNull():
                return name in NEVER_NULL
            case ("topic" | "partition") as name, (
                EqualTo()
                | In()
                | GreaterThan()
                | GreaterThanOrEqual()
                | LessThan()
                | LessThanOrEqual()
            ):
                self._conditions.append((name, pushed))
                return True
            case "offset", EqualTo():
                return self._at_least(value) and self._below(value + 1)
            case "offset", GreaterThan():
                return self._at_least(value + 1)
            case "offset", GreaterThanOrEqual():
                return self._at_least(value)
            case "offset", LessThan():
                return self._below(value)
            case "offset", LessThanOrEqual():
                return self._below(value + 1)
            case "timestamp", EqualTo() | GreaterThan() | GreaterThanOrEqual():
                # Before 1970 nothing lies that brokers could look up, so that narrows nothing.
                self.timestamp_min = max(_milliseconds(value), self.timestamp_min)
        return False

    def _at_least(self, offset: int) -> bool:
        self.offset_min = max(self.offset_min, offset)
        return True

    def _below(self, offset: int) -> bool:
        self.offset_end = min(self.offset_end, offset)
        return True

    def _admits(self, partition: TopicPartition) -> bool:
        values = {"topic": partition.topic, "partition": partition.partition}
        return all(_holds(pushed, values[name]) for name, pushed in self._conditions)


def _operands(pushed: Any) -> tuple[str | None, Any]:
    """The column, if it is one of ours and no field within one, and what it is compared with."""
    attribute: tuple[str, ...] = getattr(pushed, "attribute", ())
    name = attribute[0] if len(attribute) == 1 else None
    return name, getattr(pushed, "value", None)


def _holds(pushed: Filter, value: Any) -> bool:
    match pushed:
        case EqualTo():
            return bool(value == pushed.value)
        case In():
            return value in pushed.value
        case GreaterThan():
            return bool(value > pushed.value)
        case GreaterThanOrEqual():
            return bool(value >= pushed.value)
        case LessThan():
            return bool(value < pushed.value)
        case _:
            assert isinstance(pushed, LessThanOrEqual)
            return bool(value <= pushed.value)


def _milliseconds(moment: datetime) -> int:
    """The last whole millisecond that is not later."""
    since = moment - EPOCH if moment.tzinfo else moment.replace(tzinfo=UTC) - EPOCH
    return (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) // 1000
