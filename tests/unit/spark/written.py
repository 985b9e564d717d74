"""What the sink wrote, read by another client, and rows for it to write."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import from_arrow_schema
from tests.interop.suite import SECONDS_MAX

from tidelog.spark.sink import BatchWriter, batch_writer

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "topic": pa.string(),
    "partition": pa.int32(),
}


class Found(NamedTuple):
    """A record as librdkafka read it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def rows_of(**columns: Any) -> pa.RecordBatch:
    arrays = [pa.array(values, TYPES[name]) for name, values in columns.items()]
    return pa.record_batch(arrays, names=list(columns))


def writer_for(bootstrap_servers: str, rows: pa.RecordBatch, **options: str) -> BatchWriter:
    """As the driver makes it."""
    named = {name.replace("__", "."): text for name, text in options.items()}
    given = CaseInsensitiveDict({"kafka.bootstrap.servers": bootstrap_servers, **named})
    made = batch_writer(given, from_arrow_schema(rows.schema), False)
    assert isinstance(made, BatchWriter)
    return made


def read_all(bootstrap_servers: str, topic: str, partitions: int) -> list[Found]:
    """Every record, partition after partition in the order of their offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,  # closing would wait for a coordinator to commit to
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: dict[int, list[Found]] = {number: [] for number in range(partitions)}
    ended = 0
    while ended < partitions:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"no record and no end within {SECONDS_MAX} s"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1
            continue
        partition = message.partition()
        assert partition is not None
        assert message.offset() == len(found[partition])
        headers = tuple(message.headers() or ())
        found[partition].append(Found(partition, message.key(), message.value(), headers))
    consumer.close()
    return [record for number in sorted(found) for record in found[number]]
