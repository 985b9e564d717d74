"""The source's options: names, defaults and precedence of Spark's Kafka source, and a few more."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from tidelog.client import ClientSettings, TopicPartition
from tidelog.client.fetch import FetchLimits
from tidelog.client.offsets import EARLIEST, LATEST, IsolationLevel
from tidelog.spark.kafka_options import PREFIX, kafka_settings
from tidelog.spark.offsets import (
    AtEnd,
    AtOffsets,
    AtTimestamps,
    Position,
    latest_without_match,
    named,
    parse_partitions,
    parse_position,
)
from tidelog.spark.options import (
    INT_MAX,
    OptionError,
    Options,
    boolean,
    choice,
    integer,
    milliseconds,
    refuse_unknown,
)
from tidelog.spark.schema import COLUMNS, HEADERS, SPARK_TYPES

log = logging.getLogger(__name__)

THE_SOURCE = "the tidelog source"
STRATEGIES = ("subscribe", "subscribePattern", "assign")
ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
TRIGGER_LIMITS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
)
KNOWN = (
    *STRATEGIES,
    *ENDING,
    *TRIGGER_LIMITS,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
    "groupIdPrefix",
    "includeHeaders",
    "columns",
    "pushFilters",
)

REFUSED = {
    "auto.offset.reset": "use the option startingOffsets: Spark keeps the offsets itself",
    "key.deserializer": "keys are binary; use DataFrame operations to deserialize them",
    "value.deserializer": "values are binary; use DataFrame operations to deserialize them",
    "enable.auto.commit": "Spark keeps the offsets itself, in the query's checkpoint",
    "interceptor.classes": "interceptors can change what is read",
}
"""Settings that Spark's Kafka source refuses too."""

GROUP_ID = "group.id"
FETCH_SETTINGS = {
    "fetch.max.wait.ms": "max_wait_ms",
    "fetch.min.bytes": "min_bytes",
    "fetch.max.bytes": "max_bytes",
    "max.partition.fetch.bytes": "partition_max_bytes",
}
CONSUMER_SETTINGS = (*FETCH_SETTINGS, "isolation.level", "check.crcs", GROUP_ID)

FETCH_LIMITS = FetchLimits(max_bytes=16 << 20, partition_max_bytes=4 << 20)
"""A task reads one partition, so an answer may hold more of it than Kafka's consumer asks for."""

GROUP_ID_PREFIX = "spark-tidelog-source"
POLL_TIMEOUT_MS = 120_000
TRIGGER_DELAY_MS = 15 * 60_000


@dataclass(frozen=True)
class Assign:
    """Fixed partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class Subscribe:
    """All partitions of these topics, new ones too."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class SubscribePattern:
    """All topics in whose names the pattern is found, new ones too; internal topics never."""

    pattern: str


Strategy = Assign | Subscribe | SubscribePattern


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What a query asked for; it travels to the executors."""

    strategy: Strategy
    client: ClientSettings
    isolation: IsolationLevel
    limits: FetchLimits
    check_crcs: bool
    columns: tuple[str, ...]
    starting: Position
    ending: Position
    latest_without_match: bool
    """Where no record is as young as a starting timestamp."""
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    max_bytes_per_trigger: int | None
    poll_timeout_ms: int
    """How long a task waits for records that must be there."""
    offset_attempts: int
    offset_retry_ms: int
    partitions_cache_ms: int
    """How long the driver believes the set of partitions; not positive: it asks every time."""


def columns_of(options: Options) -> tuple[str, ...]:
    """The columns that the query reads, in order."""
    headers = boolean(options, "includeHeaders", False)
    text = options.get("columns")
    if text is None:
        return (*COLUMNS, HEADERS) if headers else COLUMNS
    names = {name.lower(): name for name in SPARK_TYPES}
    columns = []
    for part in text.split(","):
        name = names.get(part.strip().lower())
        if name is None:
            raise OptionError(
                f"columns is {text!r}, and {part.strip()!r} is none of {', '.join(SPARK_TYPES)}"
            )
        columns.append(name)
    if len(set(columns)) < len(columns):
        raise OptionError(f"columns is {text!r}, which names a column twice")
    if headers and HEADERS not in columns:
        raise OptionError(f"includeHeaders is true, but columns is {text!r}, without headers")
    return tuple(columns)


def batch_options(options: Options) -> SourceOptions:
    """Of a batch query."""
    parsed = _parse(options, parse_position(options, "starting", EARLIEST))
    _refuse_end(parsed.starting, LATEST, "starting")
    _refuse_end(parsed.ending, EARLIEST, "ending")
    _refuse_crossing(parsed.starting, parsed.ending)
    for name in TRIGGER_LIMITS:
        if options.get(name) is not None:
            log.warning("option %s is ignored in batch queries", name)
    return parsed


def stream_options(options: Options) -> SourceOptions:
    """Of a streaming query."""
    for name in ENDING:
        if options.get(name) is not None:
            raise OptionError(f"{name} is not valid in streaming queries: they have no end")
    if boolean(options, "pushFilters", False):
        raise OptionError(
            "pushFilters is not valid in streaming queries: Spark pushes no filter into a stream"
        )
    return _parse(options, parse_position(options, "starting", LATEST))


def _parse(options: Options, starting: Position) -> SourceOptions:
    refuse_unknown(options, KNOWN, THE_SOURCE)
    strategy = _strategy(options)
    client = _client_settings(options)
    least = integer(options, "minOffsetsPerTrigger", minimum=1)
    most = integer(options, "maxOffsetsPerTrigger", minimum=1)
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})"
        )
    return SourceOptions(
        strategy=strategy,
        client=client,
        isolation=_isolation(options),
        limits=_limits(options),
        check_crcs=boolean(options, "kafka.check.crcs", True),
        columns=columns_of(options),
        starting=starting,
        ending=parse_position(options, "ending", LATEST),
        latest_without_match=latest_without_match(options),
        fail_on_data_loss=boolean(options, "failOnDataLoss", True),
        min_partitions=integer(options, "minPartitions", minimum=1),
        max_records_per_partition=integer(options, "maxRecordsPerPartition", minimum=1),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=milliseconds(options, "maxTriggerDelay", TRIGGER_DELAY_MS),
        max_bytes_per_trigger=integer(options, "maxBytesPerTrigger", minimum=1),
        poll_timeout_ms=_number(options, "kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS, 1),
        offset_attempts=_number(options, "fetchOffset.numRetries", 3, 1),
        offset_retry_ms=_number(options, "fetchOffset.retryIntervalMs", 1_000, 0),
        partitions_cache_ms=_number(options, "partition.metadata.cache.ttl.ms", -1, -1),
    )


def _number(options: Options, name: str, default: int, minimum: int) -> int:
    value = integer(options, name, default, minimum=minimum)
    assert value is not None
    return value


def _strategy(options: Options) -> Strategy:
    given = [name for name in STRATEGIES if options.get(name) is not None]
    listed = ", ".join(STRATEGIES)
    if not given:
        raise OptionError(f"One of the following options must be specified: {listed}")
    if len(given) > 1:
        raise OptionError(f"Only one of the following options can be specified: {listed}")
    (name,) = given
    text = options[name]
    match name:
        case "assign":
            return Assign(parse_partitions(name, text))
        case "subscribe":
            topics = {part.strip() for part in text.split(",")} - {""}
            if not topics:
                raise OptionError(f"No topics to subscribe to: subscribe is {text!r}")
            return Subscribe(tuple(sorted(topics)))
    pattern = text.strip()
    if not pattern:
        raise OptionError("The pattern to subscribe to is empty: give a regular expression")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"subscribePattern is {text!r}, no regular expression: {error}") from None
    return SubscribePattern(pattern)


def _client_settings(options: Options) -> ClientSettings:
    for name, reason in REFUSED.items():
        if options.get(PREFIX + name) is not None:
            raise OptionError(f"Kafka option '{name}' is not supported: {reason}")
    # Neither this source nor Spark's joins a group. The group's name is what a broker's logs and
    # quotas know the reader by: Kafka's consumer makes its client id of it.
    group = options.get(PREFIX + GROUP_ID) or options.get("groupIdPrefix") or GROUP_ID_PREFIX
    client_id = f"consumer-{group}"
    return kafka_settings(options, CONSUMER_SETTINGS, THE_SOURCE, client_id=client_id).client


def _isolation(options: Options) -> IsolationLevel:
    allowed = tuple(level.name.lower() for level in IsolationLevel)
    return IsolationLevel[choice(options, "kafka.isolation.level", allowed[0], allowed).upper()]


def _limits(options: Options) -> FetchLimits:
    given = {}
    for name, field in FETCH_SETTINGS.items():
        value = integer(options, PREFIX + name, maximum=INT_MAX)
        if value is not None:
            given[field] = value
    return FETCH_LIMITS._replace(**given)


def _refuse_end(position: Position, end: int, which: str) -> None:
    """A batch cannot start where nothing follows, nor end where nothing precedes."""
    word = "latest" if end == LATEST else "earliest"
    match position:
        case AtEnd(which=found) if found == end:
            raise OptionError(f"{which}Offsets can't be {word} for batch queries")
        case AtOffsets(offsets):
            for partition, offset in offsets.items():
                if offset == end:
                    raise OptionError(
                        f"{which}Offsets for {partition} can't be {word} for batch queries"
                    )


def _refuse_crossing(starting: Position, ending: Position) -> None:
    """What can be seen to be wrong before a broker is asked."""
    match starting, ending:
        case AtOffsets(start), AtOffsets(end):
            kind = "offset"
        case AtTimestamps(start), AtTimestamps(end):
            kind = "timestamp"
        case _:
            return
    if start.keys() != end.keys():
        raise OptionError(
            "The specified start offset and end offset should have the same partitions; "
            f"start: {named(start)}; end: {named(end)}"
        )
    for partition, first in start.items():
        last = end[partition]
        if first >= 0 and last >= 0 and first > last:
            raise OptionError(
                f"The specified start {kind} {first} is greater than the end {kind} {last} "
                f"for partition {partition}"
            )
