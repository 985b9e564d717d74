"""Offsets as Spark's Kafka source writes them: `{"orders": {"0": 23, "1": -1}}`, the next offset
to read of each partition. In what a user asks for, -1 is the latest and -2 the earliest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.client import TopicPartition
from tidelog.client.offsets import EARLIEST, LATEST
from tidelog.spark.options import INT_MAX, LONG_MAX, OptionError, Options, choice
from tidelog.types import Offset

PartitionOffsets = dict[TopicPartition, Offset]

OFFSETS_EXAMPLE = '{"topicA": {"0": 23, "1": -1}, "topicB": {"0": -2}}'
TIMESTAMPS_EXAMPLE = '{"topicA": {"0": 1700000000000, "1": 1700000000000}}'
PARTITIONS_EXAMPLE = '{"topicA": [0, 1], "topicB": [2, 4]}'


@dataclass(frozen=True)
class AtEnd:
    """The earliest or the latest offset of every partition."""

    which: int
    """EARLIEST or LATEST."""


@dataclass(frozen=True)
class AtOffsets:
    """These; EARLIEST and LATEST are among them as such."""

    offsets: PartitionOffsets


@dataclass(frozen=True)
class AtTimestamps:
    """The first record of that time or later."""

    timestamps: dict[TopicPartition, int]


@dataclass(frozen=True)
class AtTimestamp:
    """The same for every partition."""

    timestamp: int


Position = AtEnd | AtOffsets | AtTimestamps | AtTimestamp


def depends_on_time(position: Position, latest_without_match: bool) -> bool:
    """Whether it may be another place when one looks for it later, with nothing deleted."""
    match position:
        case AtEnd(which):
            return which == LATEST
        case AtOffsets(offsets):
            return LATEST in offsets.values()
    return latest_without_match


def to_json(offsets: Mapping[TopicPartition, Offset]) -> dict[str, dict[str, int]]:
    """What goes into Spark's checkpoint. Spark compares the text, so the order never changes."""
    found: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def from_json(found: Mapping[str, Mapping[str, int]]) -> PartitionOffsets:
    """The inverse of to_json."""
    return {
        TopicPartition(topic, int(index)): offset
        for topic, offsets in found.items()
        for index, offset in offsets.items()
    }


def named(partitions: Iterable[TopicPartition]) -> str:
    """For messages."""
    return ", ".join(str(partition) for partition in sorted(partitions)) or "none"


def parse_offsets(
    name: str, text: str, *, example: str = OFFSETS_EXAMPLE, least: int = EARLIEST
) -> PartitionOffsets:
    """Of an option's JSON."""
    offsets: PartitionOffsets = {}
    for topic, values in _parse_topics(name, text, example).items():
        if not isinstance(values, dict):
            raise _unexpected(name, text, example)
        for index, value in values.items():
            if not _is_partition(index) or not _is_long(value, least):
                raise _unexpected(name, text, example)
            offsets[TopicPartition(topic, int(index))] = value
    return offsets


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Of the option `assign`."""
    partitions = set()
    for topic, indexes in _parse_topics(name, text, PARTITIONS_EXAMPLE).items():
        if not isinstance(indexes, list) or not all(
            _is_long(index, 0) and index <= INT_MAX for index in indexes
        ):
            raise _unexpected(name, text, PARTITIONS_EXAMPLE)
        partitions |= {TopicPartition(topic, index) for index in indexes}
    if not partitions:
        raise OptionError(f"No partitions to assign: {name} is {text!r}")
    return tuple(sorted(partitions))


def parse_position(options: Options, which: str, default: int) -> Position:
    """What `startingTimestamp`, `startingOffsetsByTimestamp` and `startingOffsets` say together,
    the first of them before the others; with "ending" for `which` their namesakes."""
    single = f"{which}Timestamp"
    text = options.get(single)
    if text is not None:
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) or int(text) > LONG_MAX:
            raise OptionError(f"{single} is {text!r}: want one number, the milliseconds since 1970")
        _refuse_negative(single, int(text), which)
        return AtTimestamp(int(text))
    many = f"{which}OffsetsByTimestamp"
    text = options.get(many)
    if text is not None:
        timestamps = parse_offsets(many, text, example=TIMESTAMPS_EXAMPLE, least=-LONG_MAX)
        for partition, timestamp in timestamps.items():
            _refuse_negative(f"{many} of {partition}", timestamp, which)
        return AtTimestamps(timestamps)
    name = f"{which}Offsets"
    text = options.get(name, "").strip()
    match text.lower():
        case "":
            if options.get(name) is not None:
                raise _unexpected(name, text, f"earliest, latest or {OFFSETS_EXAMPLE}")
            return AtEnd(default)
        case "earliest":
            return AtEnd(EARLIEST)
        case "latest":
            return AtEnd(LATEST)
    return AtOffsets(parse_offsets(name, text))


def _refuse_negative(name: str, timestamp: int, which: str) -> None:
    """Brokers take negative times for signs: -1 for the latest offset, -2 for the earliest, and
    more. Asked for a time before 1970 they would answer something else."""
    if timestamp < 0:
        raise OptionError(
            f"{name} is {timestamp}, a time before 1970, which brokers cannot look up; for the "
            f"earliest or the latest offset use {which}Offsets"
        )


def latest_without_match(options: Options) -> bool:
    """`startingOffsetsByTimestampStrategy`: whether a partition without a record so young starts
    at its latest offset; else that is an error."""
    name = "startingOffsetsByTimestampStrategy"
    return choice(options, name, "error", ("error", "latest")) == "latest"


def _parse_topics(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _unexpected(name, text, example) from None
    if not isinstance(found, dict):
        raise _unexpected(name, text, example)
    return found


def _is_partition(index: str) -> bool:
    return index.isascii() and index.isdigit() and int(index) <= INT_MAX


def _is_long(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= LONG_MAX


def _unexpected(name: str, text: str, example: str) -> OptionError:
    return OptionError(f"{name} is {text!r}: expected e.g. {example}")
