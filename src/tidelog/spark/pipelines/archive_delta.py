"""An archive as a Delta table: a batch is one version, and the commit is in the version's entry.

Files are put in their place first and count when the version does. It is written by the package
`deltalake`, without a jar; delta-spark, DuckDB, Polars and others read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

if TYPE_CHECKING:
    from deltalake.transaction import RemoveAction

from tidelog.spark.pipelines.archive_commit import ArchivedRange, Commit, commit_from_json
from tidelog.spark.pipelines.archive_rows import COLUMNS
from tidelog.spark.pipelines.archive_table import (
    DELTA_LOG,
    PREFIX,
    CommittedByOther,
    NotAnArchive,
    TableDirectory,
)
from tidelog.spark.schema import arrow_schema

COMMIT = "tidelog.commit"
"""The key of the commit in a version's information."""
APPLICATION = "tidelog-archive"
"""Its transaction's version is the batch: Delta keeps it even where the log is cut."""
CONFIGURATION = {
    # The versions prove the coverage, so they stay as long as the table.
    "delta.logRetentionDuration": "interval 36500 days",
    "delta.enableExpiredLogCleanup": "false",
}
RECENT = 20


class DeltaArchive(TableDirectory):
    """Commits are versions of the table."""

    def recover(self) -> None:
        """Remove files that were put in their place for a batch that was not committed."""
        last = self.last_commit()
        next_batch = 0 if last is None else last.batch + 1
        for name in self.data_files() - self.visible():
            if name.startswith(f"{PREFIX}{next_batch:08d}-"):
                self.disk.remove(f"{self.path}/{name}")

    def _table(self) -> DeltaTable | None:
        """Raises NotAnArchive where its log cannot be read."""
        if not self.disk.exists(f"{self.path}/{DELTA_LOG}"):
            return None
        try:
            return DeltaTable(self.path)
        except DeltaError as error:
            raise NotAnArchive(f"{self.path} is no sound Delta table: {error}") from error

    def last_commit(self) -> Commit | None:
        table = self._table()
        if table is None:
            return None
        batch = table.transaction_version(APPLICATION)
        if batch is None:
            if table.version() > 0:
                raise NotAnArchive(f"{self.path} is a Delta table of somebody else")
            return None
        for limit in (RECENT, None):
            for entry in table.history(limit):
                if COMMIT in entry:
                    commit = self._parse(entry)
                    assert commit.batch == batch
                    return commit
        raise NotAnArchive(
            f"{self.path} has lost the version that holds batch {batch}: its log was cut"
        )

    def commits(self) -> Iterator[Commit]:
        table = self._table()
        history = table.history() if table is not None else []
        return (self._parse(entry) for entry in reversed(history) if COMMIT in entry)

    def _parse(self, entry: dict[str, Any]) -> Commit:
        return commit_from_json(f"version {entry['version']} of {self.path}", entry[COMMIT])

    def commit(self, commit: Commit) -> None:
        self.require_staged(commit)
        self.place(commit)
        schema = Schema.from_arrow(arrow_schema(COLUMNS))
        table = self._table()
        if table is None:
            table = DeltaTable.create(self.path, schema, configuration=CONFIGURATION)
        properties = CommitProperties(
            custom_metadata={COMMIT: commit.to_json()},
            # Delta would let two writers append at once; the second one here is a mistake.
            max_commit_retries=0,
            app_transactions=[Transaction(APPLICATION, commit.batch)],
        )
        added = table.transaction_version(APPLICATION)
        if (-1 if added is None else added) != commit.batch - 1:
            raise CommittedByOther(f"batch {added} of {self.path} is another archive's")
        actions: list[AddAction | RemoveAction] = [
            _added(found, commit.written_ms) for found in commit.ranges if found.file
        ]
        try:
            table.create_write_transaction(actions, "append", schema, commit_properties=properties)
        except DeltaError as error:
            raise CommittedByOther(
                f"batch {commit.batch} of {self.path} was not committed, for somebody else wrote "
                f"to the table at the same time; start again ({error})"
            ) from error

    def visible(self) -> set[str]:
        table = self._table()
        if table is None:
            return set()
        return {uri.removeprefix("file://").rpartition("/")[2] for uri in table.file_uris()}


def _added(found: ArchivedRange, written_ms: int) -> AddAction:
    stats = {
        "numRecords": found.rows,
        "minValues": {
            "topic": found.topic,
            "partition": found.partition,
            "offset": found.first_offset,
        },
        "maxValues": {
            "topic": found.topic,
            "partition": found.partition,
            "offset": found.last_offset,
        },
        "nullCount": {"topic": 0, "partition": 0, "offset": 0},
    }
    return AddAction(found.file, found.size, {}, written_ms, True, json.dumps(stats))
