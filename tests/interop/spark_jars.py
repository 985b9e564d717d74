"""Spark's own Kafka connector: the jars that the PySpark wheel lacks."""

from __future__ import annotations

from pathlib import Path

from tests.interop.jars import CACHE, fetched

SPARK_VERSION = "4.2.0"
CONNECTOR_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""One by one: what the connector's own build file names beside them is in the wheel already. The
token provider of 4.0.0 is the newest that can be had everywhere; the connector takes it."""


def connector_jars() -> tuple[Path, ...]:
    """The connector and what it needs."""
    return fetched(CACHE / "spark" / SPARK_VERSION, CONNECTOR_JARS, alone=True)
