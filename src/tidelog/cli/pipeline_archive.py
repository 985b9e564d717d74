"""`tidelog pipeline archive`: topics into a table of Parquet files or a Delta table."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.connect import Connection, connected, connection_options
from tidelog.cli.properties import parse_assignments

if TYPE_CHECKING:
    from tidelog.cli.pipeline_progress import ArchiveProgress
    from tidelog.spark.pipelines.archive import Archive
    from tidelog.spark.pipelines.archive_table import Table
    from tidelog.spark.source_options import SourceOptions

INTERRUPTED = 130


class Wanted(NamedTuple):
    """The command line."""

    connection: Connection
    to: str
    topic: str | None
    topic_pattern: str | None
    table_format: str | None
    starting_offsets: str
    isolation_level: str
    compression: str
    max_records_per_batch: int
    max_records_per_file: int
    once: bool
    poll_interval_ms: int
    allow_data_loss: bool
    against_brokers: bool
    master: str | None
    conf: tuple[str, ...]
    as_json: bool

    def source(self) -> SourceOptions:
        """What the source is asked for. UsageError says which option is wrong."""
        from pyspark.sql.datasource import CaseInsensitiveDict

        from tidelog.spark.options import OptionError
        from tidelog.spark.source_options import stream_options

        options = {f"kafka.{name}": value for name, value in self.connection.properties.items()}
        options |= {
            "kafka.bootstrap.servers": self.connection.bootstrap_server,
            "kafka.isolation.level": self.isolation_level,
            "startingOffsets": self.starting_offsets,
            "failOnDataLoss": str(not self.allow_data_loss).lower(),
            "groupIdPrefix": "tidelog-archive",
        }
        if self.topic is not None:
            options["subscribe"] = self.topic
        if self.topic_pattern is not None:
            options["subscribePattern"] = self.topic_pattern
        try:
            return stream_options(CaseInsensitiveDict(options))
        except OptionError as error:
            raise click.UsageError(_own_words(str(error))) from None

    def open_table(self) -> Table:
        """Raises NotAnArchive."""
        from tidelog.spark.pipelines.archive_table import open_table

        if "://" in self.to:
            raise click.BadParameter(
                f"{self.to} is no directory: name one that driver and executors have mounted",
                param_hint="--to",
            )
        return open_table(os.path.abspath(self.to), self.table_format)  # noqa: PTH100


def _own_words(text: str) -> str:
    """The source's options under the names that they have here."""
    for name, own in {
        "subscribePattern": "--topic-pattern",
        "subscribe": "--topic",
        "startingOffsets": "--starting-offsets",
    }.items():
        text = text.replace(name, own)
    return text


@click.command("archive")
@connection_options
@click.option("--to", metavar="DIR", required=True, help="The table; made if it is not there.")
@click.option("--topic", metavar="A,B", help="The topics, by commas.")
@click.option("--topic-pattern", metavar="REGEX", help="Or all topics in whose name it is found.")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "delta"]),
    help="Of a new table (default: parquet).",
)
@click.option(
    "--starting-offsets",
    metavar="WHERE",
    default="earliest",
    show_default=True,
    help='Where a new table begins: earliest, latest, or JSON like {"orders": {"0": 23}}.',
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_committed",
    show_default=True,
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "gzip", "lz4", "none"]),
    default="zstd",
    show_default=True,
    help="Of the files.",
)
@click.option(
    "--max-records-per-batch",
    metavar="N",
    type=click.IntRange(min=1),
    default=5_000_000,
    show_default=True,
    help="What is committed at once.",
)
@click.option(
    "--max-records-per-file",
    metavar="N",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="What one task reads.",
)
@click.option("--once", is_flag=True, help="End when all that is there now has been archived.")
@click.option(
    "--poll-interval-ms",
    metavar="MS",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="How long to wait where nothing is new.",
)
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Go on where retention deleted records first; the table's commits say which.",
)
@click.option("--verify", is_flag=True, help="Prove what the table covers, and write nothing.")
@click.option(
    "--against-brokers", is_flag=True, help="With --verify: compare with what brokers still hold."
)
@click.option("--master", metavar="URL", help="Spark's master (default: this machine's cores).")
@click.option(
    "--conf", metavar="NAME=VALUE", multiple=True, help="A Spark setting; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for scripts.")
def command(verify: bool, **options: Any) -> None:
    """Copy topics into a table, each record exactly once, until Ctrl-C.

    Started again, it goes on where it stopped, however that was. Each commit of the table says
    which offsets it brought.

    \b
    tidelog pipeline archive --topic orders --to archive/orders --once
    tidelog pipeline archive --to archive/orders --verify
    """
    wanted = Wanted(**options)
    if wanted.against_brokers and not verify:
        raise click.UsageError("--against-brokers goes with --verify")
    with _errors_of_one_line():
        if verify:
            from tidelog.cli.pipeline_verify import refuse_unused, verify_archive

            refuse_unused(click.get_current_context(), wanted)
            verify_archive(wanted)
        else:
            _archive(wanted)


@contextmanager
def _errors_of_one_line() -> Iterator[None]:
    try:
        from tidelog.env import DiskFull
        from tidelog.spark.options import OptionError
        from tidelog.spark.pipelines.archive_commit import MalformedCommit
        from tidelog.spark.pipelines.archive_table import (
            CommittedByOther,
            FilesMissing,
            NotAnArchive,
        )
        from tidelog.spark.pipelines.session import NoSpark
        from tidelog.spark.pipelines.tasks import TaskFailed
        from tidelog.spark.planner import DataLoss
    except ImportError as error:
        raise click.ClickException(
            f"{error.name} is missing; install Spark with tidelog: pip install 'tidelog[spark]'"
        ) from None
    try:
        yield
    except OptionError as error:  # which only the brokers' answers showed
        raise click.UsageError(_own_words(str(error))) from None
    except DataLoss as error:
        hint = "; --allow-data-loss goes on with what is left"
        raise click.ClickException(error.reason.rstrip(".") + hint) from None
    except (
        CommittedByOther,
        DiskFull,
        FilesMissing,
        MalformedCommit,
        NoSpark,
        NotAnArchive,
        OSError,
        TaskFailed,
    ) as error:
        raise click.ClickException(str(error)) from None


def _archive(wanted: Wanted) -> None:
    from tidelog.cli.pipeline_progress import ArchiveProgress
    from tidelog.client.topics import list_topics
    from tidelog.spark.pipelines.archive import Archive, ArchiveOptions
    from tidelog.spark.pipelines.tasks import SparkRun

    if (wanted.topic is None) == (wanted.topic_pattern is None):
        raise click.UsageError("say what to archive: --topic A,B or --topic-pattern REGEX")
    options = ArchiveOptions(
        source=wanted.source(),
        offsets_per_batch=wanted.max_records_per_batch,
        offsets_per_file=wanted.max_records_per_file,
        compression=wanted.compression,
    )
    run = SparkRun("tidelog archive", wanted.master, parse_assignments(wanted.conf))
    progress = ArchiveProgress(wanted.as_json)
    with connected(*wanted.connection) as client:
        client.run(list_topics)  # whether a broker answers is known before Spark is started
        with Archive(options, wanted.open_table(), run) as archive:
            try:
                with _Stop(archive) as stop:
                    _archive_all(archive, wanted, progress, stop)
            except KeyboardInterrupt:
                progress.was_interrupted = True
            finally:
                progress.close()
                run.close()  # before the archive removes what its tasks write
            progress.summarize(archive.last, wanted.to)
    if progress.was_interrupted and wanted.once:
        raise click.exceptions.Exit(INTERRUPTED)


def _archive_all(archive: Archive, wanted: Wanted, progress: ArchiveProgress, stop: _Stop) -> None:
    until = archive.latest() if wanted.once else None
    while not stop.was_asked:
        done = archive.archive_next(until)
        if done is not None:
            progress.committed(done)
        elif wanted.once:
            return
        else:
            time.sleep(wanted.poll_interval_ms / 1000)


class _Stop:
    """Ctrl-C, or SIGTERM as services are asked to end: at once, but not within a commit."""

    def __init__(self, archive: Archive) -> None:
        self.was_asked = False
        self._archive = archive
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.was_asked:
            raise KeyboardInterrupt

    def _stop(self, number: int, frame: object) -> None:
        self.was_asked = True
        if not self._archive.is_committing:
            raise KeyboardInterrupt
