"""A client of Kafka brokers: operations without I/O, and two shells that run them.

    from tidelog.client import Client, ClientSettings, parse_servers
    from tidelog.client.offsets import EARLIEST, list_offsets

    with Client(ClientSettings(bootstrap_servers=parse_servers("127.0.0.1:9092"))) as client:
        client.run(list_offsets, {TopicPartition("orders", 0): EARLIEST})

`AsyncClient` has the same `run`, to be awaited. The operations: `admin`, `configs`, `fetch`,
`offsets`, `produce`, `producer`, `topics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.client.blocking import Client
from tidelog.client.cluster import TopicPartition
from tidelog.client.errors import (
    Address,
    BrokerError,
    ClientError,
    ConnectionFailed,
    CorruptBatch,
    DoesNotFit,
    TimedOut,
    UnknownBroker,
    UnsupportedByBroker,
)
from tidelog.client.settings import ClientSettings, parse_servers, settings_from_properties

if TYPE_CHECKING:
    from tidelog.client.aio import AsyncClient

__all__ = [
    "Address",
    "AsyncClient",
    "BrokerError",
    "Client",
    "ClientError",
    "ClientSettings",
    "ConnectionFailed",
    "CorruptBatch",
    "DoesNotFit",
    "TimedOut",
    "TopicPartition",
    "UnknownBroker",
    "UnsupportedByBroker",
    "parse_servers",
    "settings_from_properties",
]


def __getattr__(name: str) -> Any:
    # asyncio takes longer to import than a command takes to list topics.
    if name == "AsyncClient":
        from tidelog.client.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
