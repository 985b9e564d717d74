"""The sink, batch and streaming: what Spark hands a task as Arrow batches goes to the brokers.

At least once: a task ends when the brokers have acknowledged all its rows. One that fails, or a
micro-batch that is run again, writes again what it had written. Within a task nothing is written
twice whatever happens to the brokers, since its producer is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidelog.spark.options import Options
from tidelog.spark.sink_options import SinkOptions, sink_options
from tidelog.spark.sink_task import write_rows


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """What a task wrote."""

    rows: int
    batches: int
    batch_bytes: int


def batch_writer(options: Options, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """For `df.write`; OptionError says what is wrong with the options or the columns."""
    return BatchWriter(sink_options(options, schema, overwrite))


def stream_writer(
    options: Options, schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """For `df.writeStream`. In the output mode complete every micro-batch appends its whole
    result, as Spark's Kafka sink does."""
    return StreamWriter(sink_options(options, schema, overwrite=False))


class BatchWriter(DataSourceArrowWriter):
    """`write` runs in an executor; there is nothing left to commit, nor can a log abort."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return WrittenRows(*write_rows(self.options, iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """The same for each micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return WrittenRows(*write_rows(self.options, iterator))
