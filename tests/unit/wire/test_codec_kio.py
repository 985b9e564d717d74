"""kio as oracle: random messages of every API and version are the same bytes to both codecs."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from tests.conftest import examples

from tidelog.broker.router import SERVED
from tidelog.slices import finish
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.api import APIS, request_class, response_class
from tidelog.wire.codec import decode, encode, sliced_decoder, sliced_encoder
from tidelog.wire.declare import Message, Struct
from tidelog.wire.decoder import ELEMENTS_MAX
from tidelog.wire.schema import Array, Field, FieldType, Fixed, Nested, fields_of

CASES = [
    pytest.param(
        key,
        kind,
        version,
        id=f"{api.name}-{kind}-v{version}",
        # The last version of what a node serves keeps `make check` honest, the rest is slow.
        marks=[] if key in SERVED and version == api.versions[1] else [pytest.mark.slow],
    )
    for key, api in APIS.items()
    for kind in ("request", "response")
    for version in range(api.versions[0], api.versions[1] + 1)
]

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
MS = datetime.timedelta(milliseconds=1)
YEAR_2286_MS = 10**13


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    low = -(1 << bits - 1) if signed else 0
    return st.integers(low, (1 << bits - 1) - 1 if signed else (1 << bits) - 1)


# kio's own types are narrower than the wire's: known error codes, datetimes, timedeltas.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": integers(8),
    "int16": integers(16),
    "uint16": integers(16, signed=False),
    "int32": integers(32),
    "int64": integers(64),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=200) | st.just("x" * 127) | st.just("é" * 100),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200) | st.just(b"r" * 20_000),
    "uuid": st.binary(min_size=16, max_size=16).map(Uuid) | st.just(ZERO_UUID),
    "error_code": st.sampled_from([int(code) for code in KioErrorCode]),
    "timedelta_i32": integers(32),
    "timedelta_i64": st.integers(-YEAR_2286_MS, YEAR_2286_MS),
    # Whole seconds: kio's decoder goes through a float, which rounds some milliseconds.
    "datetime_i64": st.integers(0, YEAR_2286_MS // 1000).map(lambda seconds: seconds * 1000),
}

TO_KIO: dict[str, Callable[[Any], Any]] = {
    "error_code": KioErrorCode,
    "timedelta_i32": lambda value: value * MS,
    "timedelta_i64": lambda value: value * MS,
    "datetime_i64": lambda value: EPOCH + value * MS,
    "uuid": lambda value: None if value == ZERO_UUID else uuid.UUID(bytes=value),
}


def kio_class(key: int, kind: str, version: int) -> type[Any]:
    module = importlib.import_module(f"kio.schema.{api_key_map[key]}.v{version}.{kind}")
    cls: type[Any] = getattr(module, APIS[key].name + kind.capitalize())
    return cls


def pairs(cls: type[Struct], theirs: type[Any], version: int) -> list[tuple[Field, Any]]:
    """Our fields of this version beside kio's: the order, not the name, must agree."""
    ours = [field for field in fields_of(cls) if field.is_in(version)]
    return list(zip(ours, dataclasses.fields(theirs), strict=True))


def nested_class(theirs: Any) -> type[Any]:
    """The dataclass in a field's type, which may be wrapped in a tuple or an Optional."""
    if dataclasses.is_dataclass(theirs) and isinstance(theirs, type):
        return theirs
    for argument in theirs.__args__:
        if argument not in (Ellipsis, type(None)):
            return nested_class(argument)
    raise AssertionError(theirs)


def values(field_type: FieldType, theirs: Any, version: int) -> st.SearchStrategy[Any]:
    match field_type:
        case Array(element):
            # Numbers are packed in different ways up to 16, up to 127 and beyond.
            size_max = 150 if isinstance(element, Fixed) else 3
            return st.lists(values(element, theirs, version), max_size=size_max).map(tuple)
        case Nested(cls):
            return structs(cls, nested_class(theirs.type), version)
        case _:
            return VALUES[theirs.metadata["kafka_type"]]


def structs(cls: type[Struct], theirs: type[Any], version: int) -> st.SearchStrategy[Any]:
    drawn = {}
    for field, their_field in pairs(cls, theirs, version):
        strategy = values(field.type, their_field, version)
        if field.is_nullable(version):
            strategy = st.none() | strategy
        if field.is_tagged(version):
            strategy = st.just(field.default) | strategy
        drawn[field.name] = strategy
    absent = {
        field.name: st.just(field.default) for field in fields_of(cls) if not field.is_in(version)
    }
    return st.builds(cls, **drawn, **absent)


def to_kio(message: Struct, theirs: type[Any], version: int) -> Any:
    def convert(value: Any, field_type: FieldType, their_field: Any) -> Any:
        if value is None:
            return None
        match field_type:
            case Array(element):
                return tuple(convert(item, element, their_field) for item in value)
            case Nested():
                return to_kio(value, nested_class(their_field.type), version)
            case _:
                kafka_type = their_field.metadata["kafka_type"]
                return TO_KIO.get(kafka_type, lambda same: same)(value)

    return theirs(
        **{
            their_field.name: convert(getattr(message, field.name), field.type, their_field)
            for field, their_field in pairs(type(message), theirs, version)
        }
    )


@pytest.mark.parametrize(("key", "kind", "version"), CASES)
@settings(parent=examples(10), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_same_bytes_as_kio(key: int, kind: str, version: int, data: st.DataObject) -> None:
    cls: type[Message] = (request_class if kind == "request" else response_class)(key)
    theirs = kio_class(key, kind, version)
    message = data.draw(structs(cls, theirs, version))

    ours = encode(message, version)
    their_message = to_kio(message, theirs, version)
    written = bytearray()

    class Buffer:
        def write(self, chunk: bytes) -> None:
            written.extend(chunk)

    entity_writer(theirs)(Buffer(), their_message)  # type: ignore[arg-type]

    assert ours == bytes(written)
    assert decode(cls, version, ours) == message
    decoded, size = entity_reader(theirs)(ours, 0)
    assert (decoded, size) == (their_message, len(ours))
    assert in_slices(message, version, ours) == (ours, message)


def in_slices(message: Message, version: int, data: bytes) -> tuple[bytes, Message]:
    """The same by the codec for very many elements."""
    parts: list[Any] = []
    finish(sliced_encoder(type(message), version)(message, parts))
    decoding = sliced_decoder(type(message), version)(memoryview(data), 0, ELEMENTS_MAX)
    decoded, end = finish(decoding)
    assert end == len(data)
    return b"".join(parts), decoded


def test_every_api_of_kio_is_here() -> None:
    assert set(APIS) == set(api_key_map)
