"""What a user of a producer may set, under the names of Kafka's producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.client.produce import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.wire.compression import LEVELS, Compression

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

IDEMPOTENT_IN_FLIGHT_MAX = 5
"""A broker remembers the last 5 batches of a producer."""


class _Number(NamedTuple):
    field: str
    minimum: int
    maximum: int


NUMBERS = {
    "batch.size": _Number("batch_bytes", 0, INT_MAX),
    "linger.ms": _Number("linger_ms", 0, LONG_MAX),
    "buffer.memory": _Number("buffer_bytes", 0, LONG_MAX),
    "max.request.size": _Number("request_bytes_max", 0, INT_MAX),
    "max.in.flight.requests.per.connection": _Number("in_flight_max", 1, 64),
    "retries": _Number("retries", 0, INT_MAX),
    "delivery.timeout.ms": _Number("delivery_timeout_ms", 0, INT_MAX),
    "max.block.ms": _Number("block_ms_max", 0, INT_MAX),
}
ACKS = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}
CODECS = {codec.name.lower(): codec for codec in Compression}
LEVEL_NAMES = {f"compression.{codec.name.lower()}.level": codec for codec in LEVELS}
IDEMPOTENCE = "enable.idempotence"
IGNORE_KEYS = "partitioner.ignore.keys"
PRODUCER_NAMES = (
    "acks",
    "compression.type",
    IDEMPOTENCE,
    IGNORE_KEYS,
    *LEVEL_NAMES,
    *NUMBERS,
)


@dataclass(frozen=True, kw_only=True)
class ProducerSettings:
    """Times are in milliseconds."""

    acks: int = ACKS_ALL
    idempotent: bool = True
    batch_bytes: int = 16 << 10
    """Of records, before compression; a larger record is a batch of its own."""
    linger_ms: int = 5
    buffer_bytes: int = 32 << 20
    request_bytes_max: int = 1 << 20
    """Also the largest record, before compression."""
    in_flight_max: int = IDEMPOTENT_IN_FLIGHT_MAX
    retries: int = INT_MAX
    delivery_timeout_ms: int = 120_000
    block_ms_max: int = 60_000
    """How long to wait for what is known of a topic."""
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    ignore_keys: bool = False
    """Spread rows that have a key, too."""


def producer_settings(
    properties: Mapping[str, str], request_timeout_ms: int, defaults: Mapping[str, Any]
) -> ProducerSettings:
    """What Kafka's names say; ValueError as Kafka's producer refuses them. `defaults` are fields
    for what is not given."""
    given: dict[str, Any] = {}
    for name, number in NUMBERS.items():
        if name in properties:
            given[number.field] = _parse_number(name, properties[name], number)
    if "acks" in properties:
        given["acks"] = _parse_word("acks", properties, ACKS)
    if IGNORE_KEYS in properties:
        given["ignore_keys"] = _parse_word(IGNORE_KEYS, properties, BOOLEANS)
    codec = Compression.NONE
    if "compression.type" in properties:
        codec = given["compression"] = _parse_word("compression.type", properties, CODECS)
    for name, leveled in LEVEL_NAMES.items():
        if name in properties:
            level = _parse_level(name, properties[name], leveled)
            if leveled is codec:
                given["compression_level"] = level
    given["idempotent"] = _idempotent(properties, given)
    _check_times(given, request_timeout_ms)
    return ProducerSettings(**{**defaults, **given})


BOOLEANS = {"true": True, "false": False}


def _parse_word(name: str, properties: Mapping[str, str], words: Mapping[str, Any]) -> Any:
    text = properties[name].strip().lower()
    if text not in words:
        raise ValueError(f"{name}={properties[name]}: want {' or '.join(words)}")
    return words[text]


def _parse_number(name: str, text: str, number: _Number) -> int:
    try:
        value = int(text)
    except ValueError:
        value = number.minimum - 1
    if not number.minimum <= value <= number.maximum:
        raise ValueError(
            f"{name}={text}: want a whole number from {number.minimum} to {number.maximum}"
        )
    return value


def _parse_level(name: str, text: str, codec: Compression) -> int | None:
    levels = LEVELS[codec]
    if codec is Compression.GZIP and text.strip() == "-1":
        return None
    return _parse_number(name, text, _Number("", levels.start, levels.stop - 1))


def _idempotent(properties: Mapping[str, str], given: Mapping[str, Any]) -> bool:
    """Kafka's rule: on, unless another setting that was given contradicts it; asked for, then
    the other is refused."""
    asked = IDEMPOTENCE in properties
    wanted = not asked or bool(_parse_word(IDEMPOTENCE, properties, BOOLEANS))
    if not wanted:
        return False
    against = ""
    if given.get("acks", ACKS_ALL) != ACKS_ALL:
        against = f"acks=all, not acks={properties['acks']}"
    elif given.get("retries", 1) == 0:
        against = "retries, not retries=0"
    elif given.get("in_flight_max", 1) > IDEMPOTENT_IN_FLIGHT_MAX:
        against = f"max.in.flight.requests.per.connection of {IDEMPOTENT_IN_FLIGHT_MAX} at most"
    if against and asked:
        raise ValueError(f"{IDEMPOTENCE}=true needs {against}")
    return not against


def _check_times(given: Mapping[str, Any], request_timeout_ms: int) -> None:
    delivery_ms = given.get("delivery_timeout_ms")
    least_ms = request_timeout_ms + given.get("linger_ms", 0)
    if delivery_ms is not None and delivery_ms < least_ms:
        raise ValueError(
            f"delivery.timeout.ms={delivery_ms} is less than linger.ms and request.timeout.ms "
            f"together, which are {least_ms}"
        )
