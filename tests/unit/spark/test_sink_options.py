"""What the sink's options may be, and how it refuses columns and settings by name."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from tidelog.client import Address
from tidelog.spark.options import OptionError
from tidelog.spark.sink import batch_writer, stream_writer
from tidelog.spark.sink_options import SinkOptions, sink_options
from tidelog.wire.compression import Compression

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def parse(columns: StructType | None = None, overwrite: bool = False, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "t"}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    return sink_options(
        CaseInsensitiveDict({name: value for name, value in given.items() if value != "-"}),
        columns or schema(value=StringType()),
        overwrite,
    )


def test_defaults_are_kafkas_but_for_larger_batches():
    options = parse()
    assert options.topic == "t"
    assert options.client.bootstrap_servers == (Address("127.0.0.1", 9092),)
    assert options.producer.idempotent
    assert options.producer.batch_bytes == 256 << 10
    assert options.producer.request_bytes_max == 1 << 20


def test_settings_of_kafkas_producer_are_read():
    options = parse(
        kafka__acks="all",
        kafka__batch__size="1000",
        kafka__compression__type="lz4",
        kafka__request__timeout__ms="500",
        kafka__delivery__timeout__ms="2000",
        delivery="AT-least-once",
        includeHeaders="true",
        checkpointlocation="somewhere",
    )
    assert options.producer.batch_bytes == 1000
    assert options.producer.compression is Compression.LZ4
    assert options.client.request_timeout_ms == 500
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka__bootstrap__servers": "-"}, "'kafka.bootstrap.servers' must be specified"),
        ({"kafka__linger": "5"}, "sink does not know kafka.linger; it knows .*kafka.linger.ms"),
        ({"kafka__acks": "some"}, "kafka.acks=some: want all or -1 or 1 or 0"),
        ({"kafka__delivery__timeout__ms": "1000"}, "less than linger.ms and request.timeout.ms"),
        ({"kafka__key__serializer": "x"}, "Kafka option 'key.serializer' is not supported: keys"),
        ({"kafka__partitioner__class": "x"}, "'partitioner.class' is not supported"),
        ({"kafka__transactional__id": "x"}, "transactional.id.*delivery=exactly-once"),
        ({"kafka__security__protocol": "SSL"}, "PLAINTEXT only"),
        ({"delivery": "exactly-once"}, "exactly-once, which needs transactions.*at-least-once"),
        ({"delivery": "once"}, "delivery is 'once', and may be at-least-once or exactly-once"),
        ({"topics": "x"}, "has no option 'topics' .did you mean topic.*"),
        ({"topic": " "}, "topic is empty"),
        ({"path": "out"}, "path is 'out', and the tidelog sink writes to brokers.*option topic"),
        ({"includeHeaders": "some"}, "includeHeaders is 'some'"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(OptionError, match=message):
        parse(**options)


def test_overwriting_is_refused_in_batches():
    with pytest.raises(OptionError, match="Save mode Overwrite not allowed"):
        parse(overwrite=True)


def test_every_column_may_have_its_types():
    for text in (StringType(), BinaryType(), VarcharType(9)):
        parse(schema(key=text, value=text, headers=HEADERS, partition=IntegerType()))
    parse(schema(value=BinaryType(), topic=StringType(), offset=TimestampType()), topic="-")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": StringType()}, "Required attribute 'value' not found: the columns are key"),
        ({"value": LongType()}, "value attribute type must be string or binary, and is bigint"),
        ({"value": StringType(), "key": NullType()}, "key attribute type must be string or binary"),
        ({"value": StringType(), "topic": BinaryType()}, "topic attribute type must be string"),
        ({"value": StringType(), "partition": LongType()}, "partition attribute type must be int"),
        (
            {"value": StringType(), "headers": ArrayType(StringType())},
            "headers attribute type must be array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_a_wrong_column_is_named(columns, message):
    with pytest.raises(OptionError, match=message):
        parse(schema(**columns))


def test_a_topic_is_needed():
    with pytest.raises(OptionError, match="topic option required when no 'topic' attribute"):
        parse(topic="-")


def test_writers_travel_to_the_executors():
    options = CaseInsensitiveDict({"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "t"})
    columns = schema(value=StringType())
    for writer in (
        batch_writer(options, columns, False),
        stream_writer(options, columns, True),
    ):
        arrived = pickle.loads(pickle.dumps(writer))
        assert isinstance(arrived.options, SinkOptions)
        assert arrived.options == writer.options
