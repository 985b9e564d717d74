"""How far an archive is: a line on a terminal, JSON for scripts, and a summary at the end."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidelog.spark.pipelines.archive import Archived
    from tidelog.spark.pipelines.archive_commit import Commit

PARTITIONS_SHOWN = 12


class ArchiveProgress:
    """Counts what this run has committed."""

    def __init__(self, as_json: bool) -> None:
        self.was_interrupted = False
        self._as_json = as_json
        self._is_drawn = False
        self._began = self._last = time.monotonic()
        self._batches = self._rows = self._lag = self._lost = 0

    def committed(self, done: Archived) -> None:
        """A batch is in the table."""
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        commit = done.commit
        self._batches += 1
        self._rows += commit.rows
        self._lag = done.lag
        self._lost += sum(lost.size for lost in commit.lost)
        if self._as_json:
            fields = {
                "batch": commit.batch,
                "rows": commit.rows,
                "files": sum(bool(found.file) for found in commit.ranges),
                "bytes": sum(found.size for found in commit.ranges),
                "seconds": round(seconds, 3),
                "lag": done.lag,
                "lost": sum(lost.size for lost in commit.lost),
            }
            click.echo(json.dumps(fields))
        elif sys.stderr.isatty():
            rate = commit.rows / max(seconds, 1e-9)
            text = f"batch {commit.batch}, {self._rows:,} rows, {rate:,.0f}/s, lag {done.lag:,}"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._is_drawn = True

    def close(self) -> None:
        """Leave the line empty for what comes next."""
        if self._is_drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_drawn = False

    def summarize(self, last: Commit | None, path: str) -> None:
        """What this run did, and how far the table reaches."""
        seconds = time.monotonic() - self._began
        ends = dict(sorted(last.ends.items())) if last is not None else {}
        if self._as_json:
            fields = {
                "batches": self._batches,
                "rows": self._rows,
                "seconds": round(seconds, 3),
                "lag": self._lag,
                "lost": self._lost,
                "ends": {str(partition): end for partition, end in ends.items()},
                "interrupted": self.was_interrupted,
            }
            click.echo(json.dumps(fields))
            return
        rate = self._rows / max(seconds, 1e-9)
        click.echo(
            f"archived {self._rows:,} rows in {self._batches} batches and {seconds:.1f} s "
            f"({rate:,.0f}/s), lag {self._lag:,}"
            + (f", {self._lost:,} offsets were lost" if self._lost else "")
        )
        shown = [f"{partition} to {end:,}" for partition, end in ends.items()]
        more = len(shown) - PARTITIONS_SHOWN
        if shown:
            listed = ", ".join(shown[:PARTITIONS_SHOWN]) + (f" and {more} more" if more > 0 else "")
            click.echo(f"{path} holds {listed}; the same command goes on from there")
