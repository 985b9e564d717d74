"""The options `kafka.*`: Kafka's own settings, as far as the client knows them.

What it does not know is refused by name: ignored, it would only seem to work.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidelog.client.settings import KNOWN, ClientSettings, settings_from_properties
from tidelog.spark.options import OptionError, Options

PREFIX = "kafka."
BOOTSTRAP_SERVERS = "bootstrap.servers"
CLIENT_ID = "client.id"


class KafkaSettings(NamedTuple):
    """What `kafka.*` says."""

    client: ClientSettings
    """Whom to ask, and how long to wait."""
    more: dict[str, str]
    """What the caller said it knows itself, without the prefix."""


def kafka_settings(
    options: Options, known: Collection[str], what: str, *, client_id: str = "tidelog-spark"
) -> KafkaSettings:
    """Read `kafka.*`; `known` are names (such as "acks") that the caller reads beside those of
    the client. OptionError names what neither knows, and what is missing."""
    properties = {
        name.lower().removeprefix(PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    if BOOTSTRAP_SERVERS not in properties:
        raise OptionError(
            f"Option '{PREFIX}{BOOTSTRAP_SERVERS}' must be specified for {what}, "
            "as host:port,host:port"
        )
    more = {name: properties.pop(name) for name in known if name in properties}
    for name in properties:
        if name not in KNOWN:
            names = ", ".join(f"{PREFIX}{known_name}" for known_name in sorted({*KNOWN, *known}))
            raise OptionError(f"{what} does not know {PREFIX}{name}; it knows {names}")
    try:
        settings = settings_from_properties({CLIENT_ID: client_id, **properties})
    except ValueError as error:
        raise OptionError(f"{PREFIX}*: {error}") from None
    return KafkaSettings(settings, more)
