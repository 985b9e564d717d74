"""The table that an archive writes: a directory of Parquet files with a log of commits.

    orders/
      part-00000007-orders-0-00000000000004711000-3f…parquet  every file here is committed
      _tidelog/commits/00000000000000000007.json              what batch 7 brought
      _tidelog/staging/<run>/                                 files of a batch to be committed
      _tidelog/lock                                           held by the archive that runs

Readers of Parquet leave out what begins with an underscore. A batch is committed when its commit
has its name; then its files are moved from staging to their place, which the next run finishes if
this one cannot. So a reader sees files of committed batches only, each once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Protocol

from tidelog.disk import RealDisk
from tidelog.env import AlreadyLocked
from tidelog.spark.pipelines.archive_commit import Commit, MalformedCommit, commit_from_json
from tidelog.spark.pipelines.archive_rows import SUFFIX

OWN = "_tidelog"
COMMITS = f"{OWN}/commits"
DELTA_LOG = "_delta_log"
FORMATS = ("parquet", "delta")
PREFIX = "part-"


class NotAnArchive(Exception):
    """The directory is something else, or of another format."""


class CommittedByOther(Exception):
    """Another archive works on the same table."""


class FilesMissing(Exception):
    """What the tasks have written is not where the driver looks."""


class Table(Protocol):
    """What an archive asks of its table. Only one who holds the lock may write."""

    path: str

    def begin_run(self, run: str) -> str:
        """Lock the table, finish or undo what a killed run left, and make the directory for this
        run's files. Raises CommittedByOther."""

    def end_run(self) -> None:
        """Remove what no commit has taken, and let go of the table."""

    def last_commit(self) -> Commit | None:
        """Of the greatest batch. Raises NotAnArchive, MalformedCommit."""

    def commits(self) -> Iterator[Commit]:
        """All, from the first on. Raises MalformedCommit."""

    def commit(self, commit: Commit) -> None:
        """The files lie in staging, durable. Raises CommittedByOther, FilesMissing."""

    def visible(self) -> set[str]:
        """The names of the files whose rows a reader of the table sees."""

    def find(self, name: str, run: str) -> str:
        """Where a committed file lies."""


class TableDirectory:
    """What tables of all formats have in common."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.disk = RealDisk()

    @property
    def staging(self) -> str:
        return f"{self.path}/{OWN}/staging"

    def recover(self) -> None:
        """Finish or undo what a killed run left outside of staging."""
        raise NotImplementedError

    def begin_run(self, run: str) -> str:
        """See Table."""
        self.disk.make_directory(f"{self.path}/{OWN}")
        try:
            self.disk.lock(f"{self.path}/{OWN}/lock")
        except AlreadyLocked as error:
            raise CommittedByOther(f"another archive runs on {self.path}: end it first") from error
        directory = f"{self.staging}/{run}"
        try:
            self.recover()  # before the last run's staging goes, some of which may be committed
            self._clear_staging()
            self.disk.make_directory(directory)
        except BaseException:
            self.disk.unlock(f"{self.path}/{OWN}/lock")
            raise
        return directory

    def end_run(self) -> None:
        """See Table."""
        self.recover()  # the last commit may have been interrupted
        self._clear_staging()
        self.disk.unlock(f"{self.path}/{OWN}/lock")

    def _clear_staging(self) -> None:
        """Tasks of a killed driver may still be writing to it. Under another name they find it no
        more, so that it can be removed."""
        trash = f"{self.path}/{OWN}/trash"
        self.disk.remove_directory(trash)  # which a kill may have left
        if self.disk.exists(self.staging):
            self.disk.rename(self.staging, trash)
            self.disk.remove_directory(trash)

    def require_staged(self, commit: Commit) -> None:
        """Raises FilesMissing."""
        directory = f"{self.staging}/{commit.run}"
        for found in commit.ranges:
            if found.file and self.disk.size(f"{directory}/{found.file}") != found.size:
                raise FilesMissing(
                    f"{directory}/{found.file} of {found.size} bytes was written and is not there: "
                    f"driver and executors must see the same {self.path}"
                )
        self.disk.flush_directory(directory)

    def place(self, commit: Commit) -> None:
        """Move a batch's files to where readers look."""
        for found in commit.ranges:
            if found.file:
                with contextlib.suppress(FileNotFoundError):  # it is there already
                    staged = f"{self.staging}/{commit.run}/{found.file}"
                    self.disk.rename(staged, f"{self.path}/{found.file}")
        self.disk.flush_directory(self.path)

    def data_files(self) -> set[str]:
        """What a reader that lists the directory takes for data."""
        return {
            name
            for name in self.disk.names(self.path)
            if name.endswith(SUFFIX) and not name.startswith(("_", "."))
        }

    def find(self, name: str, run: str) -> str:
        """In its place, or still in staging."""
        path = f"{self.path}/{name}"
        staged = f"{self.staging}/{run}/{name}"
        return staged if not self.disk.exists(path) and self.disk.exists(staged) else path


class ParquetTable(TableDirectory):
    """Commits are files of our own."""

    def recover(self) -> None:
        """The last commit may not have had the time to move its files."""
        last = self.last_commit()
        if last is not None:
            self.place(last)

    @property
    def _commits(self) -> str:
        return f"{self.path}/{COMMITS}"

    def _names(self) -> list[str]:
        return [name for name in self.disk.names(self._commits) if name.endswith(".json")]

    def last_commit(self) -> Commit | None:
        names = self._names()
        return self._read(names[-1]) if names else None

    def commits(self) -> Iterator[Commit]:
        return (self._read(name) for name in self._names())

    def _read(self, name: str) -> Commit:
        path = f"{self._commits}/{name}"
        try:
            text = (self.disk.read_file(path) or b"").decode()
        except UnicodeDecodeError as error:
            raise MalformedCommit(f"{path} is no commit of an archive: {error}") from error
        commit = commit_from_json(path, text)
        if name != _commit_name(commit.batch):
            raise MalformedCommit(f"{path} says that it is batch {commit.batch}")
        return commit

    def commit(self, commit: Commit) -> None:
        self.require_staged(commit)
        self.disk.make_directory(self._commits)
        path = f"{self._commits}/{_commit_name(commit.batch)}"
        self.disk.replace(f"{path}.new", commit.to_json().encode())
        try:
            # A rename would replace the commit of another; a second name for a file does not.
            os.link(f"{path}.new", path)
        except FileExistsError as error:
            raise CommittedByOther(f"{path} exists: another archive runs on {self.path}") from error
        finally:
            self.disk.remove(f"{path}.new")
        self.disk.flush_directory(self._commits)
        self.place(commit)

    def visible(self) -> set[str]:
        return self.data_files()


def _commit_name(batch: int) -> str:
    return f"{batch:020d}.json"


def open_table(path: str, kind: str | None) -> Table:
    """The archive in this directory, or a new one of this kind. Raises NotAnArchive."""
    disk = RealDisk()
    names = set(disk.names(path))
    if names and OWN not in names and DELTA_LOG not in names:
        raise NotAnArchive(f"{path} is not empty and no archive: name another directory")
    found = None  # a run that was killed before its first commit leaves the choice
    if DELTA_LOG in names:
        found = "delta"
    elif any(name.endswith(".json") for name in disk.names(f"{path}/{COMMITS}")):
        found = "parquet"
    if found is not None and kind is not None and found != kind:
        raise NotAnArchive(f"{path} is an archive in the format {found}, not {kind}")
    if (found or kind) == "delta":
        from tidelog.spark.pipelines.archive_delta import DeltaArchive

        return DeltaArchive(path)
    return ParquetTable(path)
