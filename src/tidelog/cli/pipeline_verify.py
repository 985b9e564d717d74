"""`tidelog pipeline archive --verify`: what a table covers, proven from its commits and files."""

from __future__ import annotations

import json
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tidelog.cli.connect import connected
from tidelog.cli.properties import parse_assignments

if TYPE_CHECKING:
    from tidelog.cli.pipeline_archive import Wanted
    from tidelog.spark.pipelines.archive_table import Table
    from tidelog.spark.pipelines.archive_verify import Verified
    from tidelog.spark.pipelines.tasks import Run

PROBLEMS_SHOWN = 20
USED = frozenset({"to", "table_format", "verify", "against_brokers", "master", "as_json"})
CONNECTION = frozenset({"bootstrap_server", "command_config", "command_property"})


def refuse_unused(context: click.Context, wanted: Wanted) -> None:
    """UsageError for an option that --verify would ignore."""
    for parameter in context.command.params:
        name, option = parameter.name or "", parameter.opts[0]
        if name in USED or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if name == "conf":
            if wanted.master is None:
                raise click.UsageError(
                    "--conf goes with --master, without which --verify runs here"
                )
        elif name in CONNECTION:
            if not wanted.against_brokers:
                raise click.UsageError(f"{option} goes with --against-brokers: no broker is asked")
        else:
            raise click.UsageError(
                f"{option} does not go with --verify, which reads all of a table"
            )


def verify_archive(wanted: Wanted) -> None:
    """Exit code 1 if the coverage is not proven. With --master the files are read by Spark."""
    from tidelog.spark.pipelines.archive_verify import verify
    from tidelog.spark.pipelines.tasks import SparkRun, run_here

    table = wanted.open_table()
    if table.last_commit() is None:
        raise click.ClickException(f"{wanted.to} is no archive yet: it has no commit")
    spark = None
    if wanted.master is not None:
        spark = SparkRun("tidelog verify", wanted.master, parse_assignments(wanted.conf))
    with closing(spark) if spark is not None else nullcontext():
        run: Run = spark if spark is not None else run_here
        verified = verify(table, run)
        compared = None
        if wanted.against_brokers:
            compared = _compare(table, wanted, run, verified)
    _say(verified, compared, wanted.as_json)
    if verified.problems:
        raise click.exceptions.Exit(1)


def _compare(table: Table, wanted: Wanted, run: Run, verified: Verified) -> int:
    from tidelog.client.topics import list_topics
    from tidelog.spark.offset_finder import OffsetFinder
    from tidelog.spark.pipelines.archive_rows import COLUMNS
    from tidelog.spark.pipelines.archive_verify import compare_with_brokers

    last = table.last_commit()
    assert last is not None
    topics = ",".join(sorted({partition.topic for partition in last.ends}))
    asked = wanted._replace(topic=topics, topic_pattern=None, isolation_level=last.isolation)
    source = replace(asked.source(), columns=COLUMNS)
    with connected(*wanted.connection) as client:
        client.run(list_topics)  # whether a broker answers, this client knows soon
        earliest = OffsetFinder(source).earliest(last.ends)
        count, problems = compare_with_brokers(table, source, earliest, run)
    verified.problems += problems
    return count


def _say(verified: Verified, compared: int | None, as_json: bool) -> None:
    if as_json:
        fields = {
            "proven": not verified.problems,
            "batches": verified.batches,
            "files": verified.files,
            "bytes": verified.size,
            "rows": verified.rows,
            "ranges_compared_with_brokers": compared,
            "problems": verified.problems,
            "partitions": {
                str(partition): asdict(covered)
                for partition, covered in sorted(verified.coverage.items())
            },
        }
        click.echo(json.dumps(fields))
        return
    for partition, covered in sorted(verified.coverage.items()):
        lost = f", {covered.lost:,} of them lost before they were archived" if covered.lost else ""
        click.echo(
            f"{partition}: offsets {covered.start_offset:,} to {covered.end_offset:,}{lost}, "
            f"{covered.rows:,} rows in {covered.ranges:,} ranges"
        )
    for problem in verified.problems[:PROBLEMS_SHOWN]:
        click.echo(problem, err=True)
    if verified.problems:
        click.echo(f"NOT proven: {len(verified.problems)} problems", err=True)
        return
    ranges = sum(covered.ranges for covered in verified.coverage.values())
    brokers = "" if compared is None else f"; {compared:,} of {ranges:,} ranges equal the brokers'"
    click.echo(
        f"proven: no gap, no record twice, every row as it was archived, in {verified.batches:,} "
        f"batches, {verified.files:,} files, {verified.size:,} bytes{brokers}"
    )
