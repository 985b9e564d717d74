"""Reads a topic's partitions on and on, from where the user said."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from tidelog.cli.progress import Progress
from tidelog.client import TopicPartition
from tidelog.client.fetch import FetchLimits, fetch
from tidelog.client.offsets import (
    EARLIEST,
    LATEST,
    NOT_FOUND,
    IsolationLevel,
    list_offsets,
)
from tidelog.client.topics import describe_topics
from tidelog.client.visibility import visible_batches
from tidelog.wire.batch_reader import read_records

if TYPE_CHECKING:
    from tidelog.cli.formats import Formatter
    from tidelog.client import Client
    from tidelog.client.fetch import Fetched

MAX_WAIT_MS = 500


class Start(NamedTuple):
    """Where to begin: at an offset or, without one, at a time, perhaps a special one."""

    offset: int | None = None
    timestamp: int = LATEST


def parse_start(offset: str, timestamp: str | None, partition: int | None) -> Start:
    """What --offset and --timestamp say; click's errors if they say nothing."""
    if timestamp is not None:
        return Start(timestamp=parse_time(timestamp))
    if offset in ("earliest", "latest"):
        return Start(timestamp=EARLIEST if offset == "earliest" else LATEST)
    if not offset.isascii() or not offset.isdigit():
        raise click.BadParameter(
            f"{offset!r} is neither a number nor `earliest` or `latest`", param_hint="--offset"
        )
    if partition is None:
        raise click.UsageError("--offset with a number needs --partition: each has its own offsets")
    return Start(int(offset))


def parse_time(text: str) -> int:
    """Milliseconds since 1970, from these or from ISO 8601; without a zone, local time."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither milliseconds nor like 2026-01-31T12:00:00+01:00",
            param_hint="--timestamp",
        ) from None


class Consuming:
    """One run of the command."""

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int | None,
        isolation: str,
        formatter: Formatter,
    ) -> None:
        self.client = client
        self.topic = topic
        self.formatter = formatter
        self.isolation = IsolationLevel[isolation.upper()]
        self.records = 0
        self.partitions = self._partitions(partition)
        self._positions: dict[TopicPartition, int] = {}
        # On a terminal the records themselves are the progress.
        self._progress = Progress("read", is_shown=not sys.stdout.isatty())

    def run(self, start: Start, records_max: int | None, timeout_ms: int | None) -> None:
        """Print records until enough, until none came for timeout_ms, or until Ctrl-C."""
        self._positions = self._find_start(start)
        quiet_since = time.monotonic()
        while records_max is None or self.records < records_max:
            wait_ms = MAX_WAIT_MS
            if timeout_ms is not None:
                left_ms = timeout_ms - int((time.monotonic() - quiet_since) * 1000)
                if left_ms <= 0:
                    return
                wait_ms = min(wait_ms, left_ms)
            fetched = self.client.run(
                fetch,
                self._positions,
                limits=FetchLimits(max_wait_ms=wait_ms),
                isolation=self.isolation,
            )
            before = self.records
            for part in fetched.values():
                self._print(part, records_max)
            if self.records > before:
                quiet_since = time.monotonic()
            sys.stdout.flush()

    def close(self) -> None:
        """Say how much it was, as Kafka does, away from the records."""
        self._progress.close()
        click.echo(f"Processed a total of {self.records} messages", err=True)

    def _print(self, fetched: Fetched, records_max: int | None) -> None:
        index = fetched.partition.partition
        write = sys.stdout.buffer.write
        for batch in visible_batches(fetched):
            for record in read_records(batch):
                if record.offset < fetched.fetch_offset:
                    continue
                if self.records == records_max:
                    return
                self.records += 1
                write(self.formatter.format(self.topic, index, batch, record))
            self._progress.show(self.records)
        self._positions[fetched.partition] = fetched.next_offset()

    def _partitions(self, partition: int | None) -> list[TopicPartition]:
        topic = self.client.run(describe_topics, [self.topic]).get(self.topic)
        if topic is None:
            raise click.ClickException(
                f"there is no topic {self.topic}; `tidelog topics --list` shows what there is"
            )
        found = [TopicPartition(self.topic, p.partition) for p in topic.partitions]
        if partition is None:
            return found
        wanted = TopicPartition(self.topic, partition)
        if wanted not in found:
            raise click.ClickException(
                f"topic {self.topic} has partitions 0 to {len(found) - 1}, no {partition}"
            )
        return [wanted]

    def _find_start(self, start: Start) -> dict[TopicPartition, int]:
        if start.offset is not None:
            return dict.fromkeys(self.partitions, start.offset)
        found = self._list(start.timestamp, self.partitions)
        # No record is that young: what comes next will be.
        missing = [partition for partition, offset in found.items() if offset == NOT_FOUND]
        return found | (self._list(LATEST, missing) if missing else {})

    def _list(self, timestamp: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, timestamp)
        found = self.client.run(list_offsets, asked, isolation=self.isolation)
        return {partition: listed.offset for partition, listed in found.items()}
