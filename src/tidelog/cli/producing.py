"""Gathers records into batches for the partitions of a topic, and counts what was acknowledged."""

from __future__ import annotations

import json
import random
import sys
import time
from typing import TYPE_CHECKING

import click

from tidelog.cli.progress import Progress
from tidelog.client import TopicPartition
from tidelog.client.partitioner import partition_of_key
from tidelog.client.produce import ACKS_ALL, Produced
from tidelog.client.producer import Producer
from tidelog.client.producer_settings import ProducerSettings
from tidelog.client.routing import Attempts, learn_topics
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

if TYPE_CHECKING:
    from tidelog.cli.lines import LineRecord
    from tidelog.client import Client
    from tidelog.client.cluster import Cluster
    from tidelog.client.errors import ClientError
    from tidelog.client.steps import Steps

TOLD_AFTER_MS = 3_000
"""A leader that moves is no news; who waits for longer wants to know what for."""


class Producing:
    """One run of the command. Records with a key go where Java's producer puts them, others to
    one partition until its batch is full, then to another."""

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int | None,
        *,
        acks: int,
        codec: str,
        batch_size: int,
        delivery_timeout_ms: int = ProducerSettings.delivery_timeout_ms,
        sync: bool = False,
    ) -> None:
        self.client = client
        self.topic = topic
        self.partition = partition
        self.compression = Compression[codec.upper()]
        self.batch_size = batch_size
        self.sync = sync
        self.records = 0
        self.bytes = 0
        self.began = time.monotonic()
        self._progress = Progress("sent", is_shown=not sys.stdin.isatty())
        self._failing_since_ms: int | None = None
        """The first failure since something was acknowledged."""
        self._has_told = False
        """What it waits for, since then."""
        client.cluster.on_retry = self._retrying
        self.partition_count = client.run(_partition_count, topic)
        if partition is not None and partition >= self.partition_count:
            last = self.partition_count - 1
            raise click.ClickException(f"topic {topic} has partitions 0 to {last}, no {partition}")
        self._producer = Producer(
            acks=acks,
            idempotent=acks == ACKS_ALL,
            delivery_timeout_ms=delivery_timeout_ms,
            on_acknowledged=self._acknowledged,
        )
        self._builders: dict[int, BatchBuilder] = {}
        self._sticky = random.randrange(self.partition_count)
        self._acknowledged_records = 0
        self._offsets: dict[int, int] = {}

    def append(self, record: LineRecord) -> None:
        """Add a record; a full batch is sent."""
        partition = self._partition_of(record.key)
        size = len(record.key or b"") + len(record.value or b"")
        builder = self._builders.setdefault(partition, BatchBuilder())
        if builder.record_count and builder.records_size + size > self.batch_size:
            # A large record goes alone: with others it might be more than the topic takes.
            self._send(partition)
            builder = self._builders[partition] = BatchBuilder()
        builder.append(
            record.key, record.value, timestamp=time.time_ns() // 1_000_000, headers=record.headers
        )
        self.records += 1
        self.bytes += size
        if self.sync:
            self.flush()
        elif builder.records_size >= self.batch_size:
            self._send(partition)
            if record.key is None and self.partition is None:
                self._sticky = random.randrange(self.partition_count)

    def flush(self) -> None:
        """Send what waits, and wait for the answers."""
        for partition in list(self._builders):
            self._send(partition)
        self.client.run(self._producer.flush)

    def finish(self) -> None:
        """All is sent and acknowledged, or an error is raised."""
        self.flush()
        self._progress.close()

    def waits_for(self) -> str:
        """What is on its way, and how long it may take."""
        seconds = self._producer.delivery_timeout_ms / 1000
        left = self._unacknowledged()
        return f"{left} to be acknowledged, for {seconds:g} s at most" if left else ""

    def give_up(self) -> None:
        """Nobody waits any more."""
        self._progress.close()
        left = self._unacknowledged()
        if left:
            click.echo(f"Not acknowledged, though perhaps written: {left}", err=True)

    def _unacknowledged(self) -> str:
        left = self.records - self._acknowledged_records
        return f"{left:,} record{'s' if left > 1 else ''}" if left else ""

    def summarize(self, as_json: bool) -> None:
        """How much went where; on standard error, for standard output may be a script's."""
        seconds = time.monotonic() - self.began
        if as_json:
            summary = {
                "topic": self.topic,
                "records": self.records,
                "bytes": self.bytes,
                "seconds": round(seconds, 3),
                "end_offsets": {str(p): offset for p, offset in sorted(self._offsets.items())},
            }
            click.echo(json.dumps(summary))
        else:
            rate = f"{self.records / seconds:,.0f} records/s" if seconds > 0.5 else ""
            took = f"{seconds:.1f} s{', ' + rate if rate else ''}"
            click.echo(f"Sent {self.records:,} records to {self.topic} ({took})", err=True)

    def _partition_of(self, key: bytes | None) -> int:
        if self.partition is not None:
            return self.partition
        return self._sticky if key is None else partition_of_key(key, self.partition_count)

    def _send(self, partition: int) -> None:
        batch = self._builders.pop(partition).build(compression=self.compression)
        self.client.run(self._producer.send, TopicPartition(self.topic, partition), batch)

    def _acknowledged(self, partition: TopicPartition, records: int, produced: Produced) -> None:
        self._failing_since_ms, self._has_told = None, False
        self._acknowledged_records += records
        if produced.base_offset >= 0:
            self._offsets[partition.partition] = produced.base_offset + records
        self._progress.show(self._acknowledged_records)

    def _retrying(self, error: ClientError) -> None:
        now_ms = self.client.cluster.now_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        if now_ms - self._failing_since_ms >= TOLD_AFTER_MS and not self._has_told:
            self._has_told = True
            self._progress.close()
            click.echo(f"Waiting: {error}", err=True)


def _partition_count(cluster: Cluster, topic: str) -> Steps[int]:
    """Ask as a producer does: where brokers create topics by themselves, this one is."""
    yield from learn_topics(cluster, [topic], Attempts(cluster), allow_auto_topic_creation=True)
    return cluster.partition_count(topic)
