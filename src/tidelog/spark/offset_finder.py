"""Asks the brokers, for the driver: which partitions there are, and where they start and end."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from tidelog.client import BrokerError, Client, ClientError, TopicPartition
from tidelog.client.fetch import Fetched, FetchLimits, fetch
from tidelog.client.offsets import EARLIEST, LATEST, NOT_FOUND, list_offsets
from tidelog.client.topics import DescribedTopic, describe_topics, list_topics
from tidelog.errors import ErrorCode
from tidelog.spark.connections import client_for, discard
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
from tidelog.spark.source_options import Assign, SourceOptions, Subscribe
from tidelog.types import Uuid

log = logging.getLogger(__name__)

T = TypeVar("T")

SAMPLE_BYTES = 64 << 10
"""Of each partition, to see what an offset takes."""


class OffsetFinder:
    """What the driver knows of the topics that a query reads."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.topic_ids: dict[str, Uuid] = {}
        """Of the topics that were found last."""
        self.at_latest: frozenset[TopicPartition] = frozenset()
        """Of the position that was found last, the partitions that it puts at their latest offset:
        found later, it would be another place."""
        self._internal: frozenset[str] = frozenset()
        """Those that were left out."""
        self._partitions: frozenset[TopicPartition] = frozenset()
        self._found_ms: float | None = None

    def partitions(self) -> frozenset[TopicPartition]:
        """Those that the query reads now; of topics that exist."""
        age = self.options.partitions_cache_ms
        if age > 0 and self._found_ms is not None and _now_ms() - self._found_ms < age:
            return self._partitions
        self._partitions = self._attempt(self._find_partitions)
        self._found_ms = _now_ms()
        return self._partitions

    def existing_partitions(self) -> frozenset[TopicPartition]:
        """The same for the start of a query, where a topic that is named must exist."""
        found = self.partitions()
        match self.options.strategy:
            case Subscribe(topics):
                missing = set(topics) - {partition.topic for partition in found}
            case Assign(partitions):
                missing = {str(partition) for partition in set(partitions) - found}
            case _:
                missing = set()
        if missing and self._internal:
            names = ", ".join(sorted(self._internal))
            raise OptionError(
                f"{names}: the brokers keep this topic for themselves, and the source, as Spark's, "
                "reads no internal topic; scan its files (option path)"
            )
        if missing:
            names = ", ".join(sorted(missing))
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise BrokerError(code, "there is no such topic or partition", about=names)
        return found

    def find(self, position: Position, which: str) -> PartitionOffsets:
        """Where a query starts or ends: real offsets of all partitions."""
        partitions = self.existing_partitions()
        match position:
            case AtEnd(end):
                wanted = dict.fromkeys(partitions, end)
            case AtOffsets(offsets):
                wanted = offsets
                _refuse_others(offsets, partitions, f"{which}Offsets")
            case AtTimestamps(timestamps):
                _refuse_others(timestamps, partitions, f"{which}OffsetsByTimestamp")
                wanted = self._at_timestamps(timestamps, which)
            case AtTimestamp(timestamp):
                wanted = self._at_timestamps(dict.fromkeys(partitions, timestamp), which)
        ends = {p: offset for p, offset in wanted.items() if offset in (EARLIEST, LATEST)}
        self.at_latest = frozenset(p for p, end in ends.items() if end == LATEST)
        return wanted | self._list(ends)

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        """Of those that still exist."""
        existing = set(partitions)
        if existing:
            existing &= self.partitions()
        return self._list(dict.fromkeys(existing, EARLIEST))

    def latest(self, known: PartitionOffsets) -> PartitionOffsets:
        """Of all partitions. A broker that lags may say less than is known already, or know a
        topic not at all, and is then asked again; what it says at last counts."""
        for attempt in range(self.options.offset_attempts):
            if attempt:
                time.sleep(self.options.offset_retry_ms / 1000)
                self._found_ms = None
            found = self._list(dict.fromkeys(self.partitions(), LATEST))
            back = {p: (known[p], o) for p, o in found.items() if o < known.get(p, o)}
            gone = known.keys() - found.keys()
            if not back and not gone:
                break
            log.warning("latest offsets that went back (from, to): %s; gone: %s", back, gone)
        return found

    def bytes_per_offset(self, start: PartitionOffsets) -> dict[TopicPartition, float]:
        """What an offset takes of the log there, compressed as it lies: by the batches at start, or
        where the log begins if they are gone. Nothing of partitions that have nothing there."""
        existing = self.partitions() if start else frozenset()
        places = {p: offset for p, offset in start.items() if p in existing}
        limits = FetchLimits(0, 0, SAMPLE_BYTES * max(len(places), 1), SAMPLE_BYTES)

        def sample(client: Client) -> dict[TopicPartition, float]:
            densities = {}
            for partition, fetched in self._fetch_held(client, places, limits).items():
                batches = list(fetched.batches(check_crc=False))
                if batches:
                    offsets = batches[-1].next_offset - batches[0].base_offset
                    densities[partition] = sum(batch.size for batch in batches) / offsets
            return densities

        return self._attempt(sample) if places else {}

    def _fetch_held(
        self, client: Client, places: PartitionOffsets, limits: FetchLimits
    ) -> dict[TopicPartition, Fetched]:
        """One fetch. What retention took is no error here: whether it is one, tasks decide."""
        isolation = self.options.isolation
        try:
            return client.run(fetch, places, limits=limits, isolation=isolation)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        first, end = (
            client.run(list_offsets, dict.fromkeys(places, which), isolation=isolation)
            for which in (EARLIEST, LATEST)
        )
        moved = {p: max(offset, first[p].offset) for p, offset in places.items()}
        held = {p: offset for p, offset in moved.items() if offset < end[p].offset}
        return client.run(fetch, held, limits=limits, isolation=isolation) if held else {}

    def offsets_of_timestamp(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> PartitionOffsets:
        """Of each partition the first record of that time or later; NOT_FOUND without one."""
        return self._list(dict.fromkeys(partitions, timestamp))

    def _at_timestamps(self, timestamps: dict[TopicPartition, int], which: str) -> PartitionOffsets:
        found = self._list(timestamps)
        for partition, offset in found.items():
            if offset != NOT_FOUND:
                continue
            if which == "starting" and not self.options.latest_without_match:
                raise OptionError(
                    f"No offset matched from request of partition {partition} and timestamp "
                    f"{timestamps[partition]}; set startingOffsetsByTimestampStrategy to latest "
                    "to start such partitions at their end"
                )
            found[partition] = LATEST
        return found

    def _find_partitions(self, client: Client) -> frozenset[TopicPartition]:
        strategy = self.options.strategy
        match strategy:
            case Assign(partitions):
                names = sorted({partition.topic for partition in partitions})
                topics = client.run(describe_topics, names)
            case Subscribe(names):
                topics = client.run(describe_topics, names)
            case _:
                topics = client.run(list_topics)
                pattern = re.compile(strategy.pattern)
                topics = {name: topic for name, topic in topics.items() if pattern.search(name)}
        self._internal = frozenset(name for name, topic in topics.items() if topic.is_internal)
        topics = {name: topic for name, topic in topics.items() if not topic.is_internal}
        self.topic_ids = {name: topic.topic_id for name, topic in topics.items()}
        found = _partitions_of(topics.values())
        return found & frozenset(strategy.partitions) if isinstance(strategy, Assign) else found

    def _list(self, wanted: dict[TopicPartition, int]) -> PartitionOffsets:
        if not wanted:
            return {}
        isolation = self.options.isolation
        found = self._attempt(lambda client: client.run(list_offsets, wanted, isolation=isolation))
        return {partition: listed.offset for partition, listed in found.items()}

    def _attempt(self, ask: Callable[[Client], T]) -> T:
        """Beyond the client's own retries: with a new client, as often as the option says."""
        settings = self.options.client
        for attempt in range(self.options.offset_attempts, 0, -1):
            try:
                return ask(client_for(settings))
            except ClientError as error:
                discard(settings)
                if attempt == 1:
                    raise
                log.warning("asking for offsets failed, and is tried again: %s", error)
                time.sleep(self.options.offset_retry_ms / 1000)
        raise AssertionError("there is at least one attempt")


def _now_ms() -> float:
    return time.monotonic() * 1000


def _partitions_of(topics: Iterable[DescribedTopic]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name, described.partition)
        for topic in topics
        for described in topic.partitions
    )


def _refuse_others(
    specified: Iterable[TopicPartition], assigned: frozenset[TopicPartition], name: str
) -> None:
    if set(specified) != assigned:
        raise OptionError(
            f"{name} must name all partitions that are read, and no others; use -1 for latest, "
            f"-2 for earliest. Specified: {named(specified)}; assigned: {named(assigned)}"
        )
