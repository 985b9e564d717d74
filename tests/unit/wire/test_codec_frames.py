"""374 frames captured from live Apache Kafka 4.3.1 nodes: decoded, compared, encoded back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.types import Uuid, format_uuid
from tidelog.wire.api import APIS, request_class, response_class
from tidelog.wire.codec import decoder, encoder
from tidelog.wire.declare import Message, Struct
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.schema import Array, Blob, FieldType, Fixed, Nested, fields_of

DATA = Path(__file__).parents[2] / "data" / "frames.jsonl"
FRAMES = [json.loads(line) for line in DATA.read_text().splitlines()]

OPAQUE = ("Records", "UnalignedRecords", "RequestData", "ResponseData")
"""Fields that hold what the message layer does not look into: the capture decoded it further."""


def holds_records(fields: Any) -> bool:
    if isinstance(fields, list):
        return any(holds_records(item) for item in fields)
    if isinstance(fields, dict):
        return any(
            (name in OPAQUE and bool(value)) or holds_records(value)
            for name, value in fields.items()
        )
    return False


def decode_frame(frame: dict[str, Any]) -> tuple[Message, Message]:
    """Header and body, which must fill the frame."""
    view = memoryview(bytes.fromhex(frame["hex"]))
    api, version = APIS[frame["key"]], frame["version"]
    if frame["kind"] == "request":
        header, cls = (RequestHeader, api.request_header_version(version)), request_class(api.key)
    else:
        header, cls = (
            (ResponseHeader, api.response_header_version(version)),
            response_class(api.key),
        )
    head, position = decoder(*header)(view, 0)
    body, end = decoder(cls, version)(view, position)
    assert end == len(view)
    return head, body


def as_captured(message: Struct, version: int) -> dict[str, Any]:
    """The message in the form of the capture: Kafka's names in lower case, a ~ for a tag."""
    shown = {}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if not field.is_in(version) or (field.is_tagged(version) and value == field.default):
            continue
        name = field.name.replace("_", "")
        shown["~" * field.is_tagged(version) + name] = _captured_value(value, field.type, version)
    return shown


def _captured_value(value: Any, field_type: FieldType, version: int) -> Any:
    match field_type:
        case _ if value is None:
            return None
        case Array(element):
            return [_captured_value(item, element, version) for item in value]
        case Nested():
            return as_captured(value, version)
        case Fixed("16s"):
            return format_uuid(Uuid(value))
        case Blob(is_records):
            assert not is_records or len(value) == 0
            return [] if is_records else {"hex": value.hex()}
        case _:
            return value


def lowered(fields: Any) -> Any:
    if isinstance(fields, list):
        return [lowered(item) for item in fields]
    if isinstance(fields, dict):
        return {name.lower(): lowered(value) for name, value in fields.items()}
    return fields


@pytest.mark.parametrize("frame", FRAMES, ids=[frame["id"] for frame in FRAMES])
def test_frame_encodes_back_to_its_bytes(frame: dict[str, Any]) -> None:
    head, body = decode_frame(frame)
    api, version = APIS[frame["key"]], frame["version"]
    is_request = isinstance(head, RequestHeader)
    header_version = (
        api.request_header_version(version) if is_request else api.response_header_version(version)
    )
    parts: list[Any] = []
    encoder(type(head), header_version)(head, parts)
    encoder(type(body), version)(body, parts)
    assert b"".join(parts).hex() == frame["hex"]


@pytest.mark.parametrize(
    "frame",
    [frame for frame in FRAMES if not holds_records(frame["fields"])],
    ids=lambda frame: frame["id"],
)
def test_frame_decodes_to_its_fields(frame: dict[str, Any]) -> None:
    head, body = decode_frame(frame)
    assert as_captured(body, frame["version"]) == lowered(frame["fields"])
    assert getattr(head, "correlation_id") == frame["corr"]  # noqa: B009
    if isinstance(head, RequestHeader):
        assert (head.request_api_key, head.client_id) == (frame["key"], frame["from"])


def test_the_capture_is_whole() -> None:
    assert len(FRAMES) == 374
    assert sum(not holds_records(frame["fields"]) for frame in FRAMES) == 331
