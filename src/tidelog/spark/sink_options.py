"""The sink's options and columns: those of Spark's Kafka sink, and `delivery`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.client import ClientSettings
from tidelog.client.producer_settings import PRODUCER_NAMES, ProducerSettings, producer_settings
from tidelog.spark.encode import HEADERS, KEY, PARTITION, SINK_COLUMNS, TOPIC, VALUE
from tidelog.spark.kafka_options import PREFIX, kafka_settings
from tidelog.spark.options import OptionError, Options, boolean, choice, refuse_unknown

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

THE_SINK = "the tidelog sink"
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
KNOWN = ("topic", "includeHeaders", "delivery")
SPARKS_OWN = (
    "checkpointLocation",
    "queryName",
    "outputMode",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "asyncProgressTrackingOverrideSinkSupportCheck",
)
"""What Spark hands to a sink besides, or reads itself."""

REFUSED = {
    "key.serializer": "keys are written as the bytes or the text they are",
    "value.serializer": "values are written as the bytes or the text they are",
    "partitioner.class": (
        "keys are hashed as Kafka's default partitioner does; use the column `partition`, or "
        f"{PREFIX}partitioner.ignore.keys"
    ),
    "transactional.id": f"transactions are the sink's own: see the option delivery={EXACTLY_ONCE}",
}

DEFAULTS = {"batch_bytes": 256 << 10, "linger_ms": 1_000}
"""Where they are not Kafka's. Rows arrive by the thousand and a task ends with all of them
acknowledged, so that waiting for a full batch makes nobody wait."""

TEXT_OR_BYTES = "string or binary"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
COLUMN_TYPES = {
    KEY: TEXT_OR_BYTES,
    VALUE: TEXT_OR_BYTES,
    HEADERS: HEADERS_TYPE,
    TOPIC: "string",
    PARTITION: "int",
}


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """What a query asked for; it travels to the executors."""

    client: ClientSettings
    producer: ProducerSettings
    topic: str | None
    """For all rows; None: each has its own in the column `topic`."""


def sink_options(options: Options, schema: StructType, overwrite: bool) -> SinkOptions:
    """OptionError names what is missing, unknown or wrong, before a row is written."""
    if overwrite:
        raise OptionError(
            "Save mode Overwrite not allowed for Kafka: a log is only appended to. "
            "Use mode('append')"
        )
    if options.get("path") is not None:
        raise OptionError(
            f"path is {options['path']!r}, and {THE_SINK} writes to brokers: call save() or "
            "start() without one, and name the topic by the option topic"
        )
    refuse_unknown(options, (*KNOWN, *SPARKS_OWN), THE_SINK)
    delivery = choice(options, "delivery", AT_LEAST_ONCE, (AT_LEAST_ONCE, EXACTLY_ONCE))
    if delivery == EXACTLY_ONCE:
        raise OptionError(
            f"delivery is {EXACTLY_ONCE}, which needs transactions, and the brokers have none "
            f"yet; {AT_LEAST_ONCE} loses nothing, and writes rows twice only where Spark runs a "
            "task or a batch again"
        )
    boolean(options, "includeHeaders", False)  # the column `headers` says it
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic is empty: name the topic that all rows shall go to")
    check_columns(schema, topic)
    for name, reason in REFUSED.items():
        if options.get(PREFIX + name) is not None:
            raise OptionError(f"Kafka option '{name}' is not supported: {reason}")
    kafka = kafka_settings(options, PRODUCER_NAMES, THE_SINK, client_id="producer-tidelog-spark")
    try:
        producer = producer_settings(kafka.more, kafka.client.request_timeout_ms, DEFAULTS)
    except ValueError as error:
        raise OptionError(f"{PREFIX}{error}") from None
    return SinkOptions(client=kafka.client, producer=producer, topic=topic)


def check_columns(schema: StructType, topic: str | None) -> None:
    """Whether the columns have the names and types that records are made of; others are left
    out, as by Spark's Kafka sink."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if VALUE not in found:
        raise OptionError(
            f"Required attribute '{VALUE}' not found: the columns are {', '.join(found)}"
        )
    if topic is None and TOPIC not in found:
        raise OptionError(
            f"topic option required when no '{TOPIC}' attribute is present. "
            "Use the topic option for setting a topic."
        )
    for name in SINK_COLUMNS:
        if name in found and not _fits(name, found[name]):
            raise OptionError(
                f"{name} attribute type must be {COLUMN_TYPES[name]}, and is {found[name]}; "
                f"cast it, or convert it by to_json or the like"
            )


def _fits(name: str, kind: str) -> bool:
    if name == PARTITION:
        return kind == "int"
    if name == HEADERS:
        return kind == HEADERS_TYPE
    is_text = kind.startswith(("string", "varchar", "char"))
    return is_text or (kind == "binary" and name != TOPIC)
