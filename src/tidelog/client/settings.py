"""What a user of the client may set, with the defaults of Kafka's clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidelog.client.errors import Address
from tidelog.wire.frame import FRAME_BYTES_MAX

PORT_DEFAULT = 9092
TIME_MS_MAX = 2**31 - 1

TIMES = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_ms_max",
    "metadata.max.age.ms": "metadata_max_age_ms",
}
"""Under the names of Kafka's clients."""
KNOWN = ("bootstrap.servers", "client.id", "security.protocol", *TIMES)


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Times are in milliseconds."""

    bootstrap_servers: tuple[Address, ...]
    """Asked in turn for the cluster's brokers, at first and when no broker answers."""
    are_controllers: bool = False
    """Whether they are controllers: then these stand in the brokers' place, for what controllers
    serve."""
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


def settings_from_properties(
    properties: Mapping[str, str], defaults: ClientSettings | None = None
) -> ClientSettings:
    """What Kafka's names say. ValueError for a name that this client does not know: ignored, it
    would only seem to work."""
    values: dict[str, Any] = {}
    for name, text in properties.items():
        if name in TIMES:
            values[TIMES[name]] = _parse_time(name, text)
        elif name == "bootstrap.servers":
            values["bootstrap_servers"] = parse_servers(text)
        elif name == "client.id":
            values["client_id"] = text
        elif name != "security.protocol":
            raise ValueError(f"the client does not know {name}; it knows {', '.join(KNOWN)}")
        elif text.upper() != "PLAINTEXT":
            raise ValueError(f"security.protocol={text}: the client speaks PLAINTEXT only")
    if defaults is not None:
        return replace(defaults, **values)
    return ClientSettings(**{"bootstrap_servers": (), **values})


def _parse_time(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > TIME_MS_MAX:
        raise ValueError(f"{name}={text}: want milliseconds from 0 to {TIME_MS_MAX}")
    return int(text)


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
