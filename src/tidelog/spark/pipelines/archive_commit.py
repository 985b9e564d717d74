"""What a commit of an archive says: which offsets of which partitions its files hold.

The commits are the archive's memory. Where to go on stands in the last one, and all of them
together prove what is covered: the ranges of a partition follow each other without a gap, from
where it was begun.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.client import TopicPartition
from tidelog.spark.offsets import PartitionOffsets, from_json, to_json
from tidelog.spark.planner import OffsetRange
from tidelog.types import Offset

VERSION = 1


class MalformedCommit(Exception):
    """A commit does not say what it should."""


class ArchivedRange(NamedTuple):
    """[start_offset, end_offset) of a partition, and the file with its rows. They may be fewer:
    offsets are also taken by what compaction removed, by markers and by aborted transactions."""

    topic: str
    partition: int
    start_offset: Offset
    end_offset: Offset
    rows: int
    first_offset: Offset
    """Of the rows, like last_offset; -1 without any."""
    last_offset: Offset
    file: str
    """Empty without rows."""
    size: int
    digest: str
    """Of the rows: see RowsDigest."""

    @property
    def of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"[{self.start_offset}, {self.end_offset}) of {self.of}"


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One batch: all of it is in the table, or nothing."""

    batch: int
    """From 0, without a gap."""
    run: str
    """Of which run: its files were written under this name."""
    isolation: str
    written_ms: int
    topic_ids: Mapping[str, str]
    starts: PartitionOffsets
    """Where each partition of the archive was begun."""
    ends: PartitionOffsets
    """Up to where each is archived, with this batch: where the next goes on."""
    ranges: tuple[ArchivedRange, ...]
    lost: tuple[OffsetRange, ...] = ()
    """What was gone from the brokers before it could be archived, by permission."""

    @property
    def rows(self) -> int:
        return sum(found.rows for found in self.ranges)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(
            {
                "version": VERSION,
                "batch": self.batch,
                "run": self.run,
                "isolation": self.isolation,
                "written_ms": self.written_ms,
                "topic_ids": dict(self.topic_ids),
                "starts": to_json(self.starts),
                "ends": to_json(self.ends),
                "ranges": [found._asdict() for found in self.ranges],
                "lost": [[*lost.partition, *lost[1:]] for lost in self.lost],
            },
            separators=(",", ":"),
        )


def commit_from_json(name: str, text: str) -> Commit:
    """Raises MalformedCommit; `name` is for its message."""
    try:
        fields: dict[str, Any] = json.loads(text)
        version = fields.pop("version")
        if version != VERSION:
            raise MalformedCommit(f"{name} is of version {version}, and this tidelog reads 1")
        return Commit(
            batch=int(fields["batch"]),
            run=str(fields["run"]),
            isolation=str(fields["isolation"]),
            written_ms=int(fields["written_ms"]),
            topic_ids=fields["topic_ids"],
            starts=from_json(fields["starts"]),
            ends=from_json(fields["ends"]),
            ranges=tuple(ArchivedRange(**found) for found in fields["ranges"]),
            lost=tuple(
                OffsetRange(TopicPartition(topic, index), start, end)
                for topic, index, start, end in fields["lost"]
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedCommit(f"{name} is no commit of an archive: {error!r}") from error
