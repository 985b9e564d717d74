"""What the records of Kafka's own topics say, as JSON."""

from __future__ import annotations

import json
from typing import Any

from tidelog.coordinator.records import (
    GROUP_KINDS,
    TRANSACTION_KINDS,
    Kinds,
    decode_key,
    decode_value,
)
from tidelog.metadata.frame import decode_record
from tidelog.types import format_uuid
from tidelog.wire.declare import Struct
from tidelog.wire.decoder import DecodeError
from tidelog.wire.schema import Array, Blob, FieldType, Fixed, Nested, fields_of


def decode_metadata(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Of `__cluster_metadata`."""
    if value is None:
        raise DecodeError("no value")
    record = decode_record(value)
    return "null", dumped({"type": type(record).__name__, "data": plain(record)})


def decode_offsets(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Of `__consumer_offsets`."""
    return _decode(key, value, GROUP_KINDS)


def decode_transactions(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Of `__transaction_state`."""
    return _decode(key, value, TRANSACTION_KINDS)


def _decode(key: bytes | None, value: bytes | None, kinds: Kinds) -> tuple[str, str]:
    if key is None:
        raise DecodeError("no key")
    number, about = decode_key(key, kinds)
    said = "null"
    if value is not None:
        version, message = decode_value(value, number, kinds)
        said = dumped({"version": str(version), "data": plain(message)})
    return dumped({"type": str(number), "data": plain(about)}), said


def dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def plain(message: Struct) -> dict[str, Any]:
    """A message as JSON has it, its fields under Kafka's names."""
    return {
        camel(one.name): plain_value(getattr(message, one.name), one.type)
        for one in fields_of(type(message))
    }


def plain_value(value: Any, kind: FieldType) -> Any:
    if value is None:
        return None
    match kind:
        case Nested():
            return plain(value)
        case Array(element):
            return [plain_value(one, element) for one in value]
        case Fixed("16s"):
            return format_uuid(value)
        case Blob():
            return bytes(value).hex()
    return value


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
