"""The stream reader of Spark 4.2 and newer, which asks how much a micro-batch shall read, and
whether a query reads what is there now and ends."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.spark.offsets import from_json, to_json
from tidelog.spark.stream_reader import UnlimitedStreamReader


class LimitedStreamReader(UnlimitedStreamReader, SupportsTriggerAvailableNow):
    """Keeps all limits of its options at once. Spark can carry one only, so it carries the first
    as a sign that there are some; Trigger.Once replaces it by ReadAllAvailable."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit that Spark hands back with every micro-batch."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]
        """Where the next micro-batch ends."""
        read_all = isinstance(limit, ReadAllAvailable)
        return to_json(self.planner.next_end(from_json(start), read_all=read_all))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress."""
        return to_json(self.planner.latest) or None

    def prepareForTriggerAvailableNow(self) -> None:
        """The query reads what is there now."""
        self.planner.stop_at_what_is_there()
