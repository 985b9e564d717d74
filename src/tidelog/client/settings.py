"""What a user of the client may set, with the defaults of Kafka's clients."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.client.errors import Address
from tidelog.wire.frame import FRAME_BYTES_MAX

PORT_DEFAULT = 9092


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Times are in milliseconds."""

    bootstrap_servers: tuple[Address, ...]
    """Asked in turn for the cluster's brokers, at first and when no broker answers."""
    client_id: str = "tidelog"
    timeout_ms: int = 60_000
    """How long an operation may take with all its attempts, unless it is told otherwise."""
    bootstrap_timeout_ms: int = 30_000
    """How long the first broker may take to be reached."""
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 1_000
    metadata_max_age_ms: int = 300_000
    answer_bytes_max: int = FRAME_BYTES_MAX

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise ValueError("name at least one bootstrap server, as host:port")


def parse_servers(text: str) -> tuple[Address, ...]:
    """The addresses of `host:port,host:port`; ValueError says which is none."""
    return tuple(_parse_server(part.strip()) for part in text.split(",") if part.strip())


def _parse_server(text: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, str(PORT_DEFAULT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address: want host:port, such as 127.0.0.1:9092")
    return Address(host, int(port))
