"""How far a streaming query is behind, partition by partition.

Spark's progress has a query's offsets and the latest ones, but no lag: a Python source cannot add
metrics. A listener computes it from every progress:

    from tidelog.spark.lag import LagListener

    listener = LagListener(lambda lag: print(lag.query_name, lag.total, lag.partitions))
    spark.streams.addListener(listener)
    ...
    listener.latest[query.id].partitions[TopicPartition("orders", 3)]
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidelog.client import TopicPartition
from tidelog.spark.offsets import PartitionOffsets, from_json

log = logging.getLogger(__name__)


class Lag(NamedTuple):
    """Of one query after one micro-batch: offsets that were there and not read yet."""

    query_id: str
    query_name: str | None
    batch_id: int
    partitions: dict[TopicPartition, int]

    @property
    def total(self) -> int:
        """Of all partitions."""
        return sum(self.partitions.values())

    def metrics(self) -> dict[str, str]:
        """Under the names, and in the form, of Spark's own Kafka source."""
        lags = self.partitions.values()
        if not lags:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(lags)),
            "maxOffsetsBehindLatest": str(max(lags)),
            "avgOffsetsBehindLatest": str(sum(lags) / len(lags)),
        }


def lag_of(progress: Any) -> Lag:
    """The lag in a query's progress, as a listener or `query.lastProgress` has it. Sources of
    other formats have offsets of other forms, and are left out."""
    lags: dict[TopicPartition, int] = {}
    for source in progress.sources:
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is not None and latest is not None:
            lags |= {p: max(0, offset - end.get(p, 0)) for p, offset in latest.items()}
    return Lag(str(progress.id), progress.name, progress.batchId, dict(sorted(lags.items())))


class LagListener(StreamingQueryListener):
    """Keeps the newest lag of every running query, and tells it on."""

    def __init__(self, tell: Callable[[Lag], None] | None = None) -> None:
        self.latest: dict[str, Lag] = {}
        """By query id."""
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is done."""
        lag = lag_of(event.progress)
        if not lag.partitions:
            return
        self.latest[lag.query_id] = lag
        log.info("query %s is %d offsets behind: %s", lag.query_id, lag.total, lag.partitions)
        if self._tell is not None:
            self._tell(lag)

    def onQueryIdle(self, event: Any) -> None:
        """There was nothing to read; the lag is what it was."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Its last lag stays to be read."""


def _offsets(text: str | None) -> PartitionOffsets | None:
    """What a source of ours, or Spark's Kafka source, calls an offset; else None."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(_is_topic(value) for value in found.values()):
        return None
    return from_json(found)


def _is_topic(value: object) -> bool:
    return isinstance(value, dict) and all(
        index.isdigit() and isinstance(offset, int) for index, offset in value.items()
    )
