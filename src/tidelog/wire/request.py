"""A frame to a request and a response to a frame: headers, versions, and who is refused."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct as Packing
from typing import Any, NamedTuple

from tidelog.wire.api import APIS, ApiKey, request_class, response_class
from tidelog.wire.codec import Decoder, Encoder, decoder, encoder
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError, ManyElements, skip_tags
from tidelog.wire.frame import LENGTH
from tidelog.wire.records import parse_produce
from tidelog.wire.records_types import SingleProduce

Served = Mapping[int, tuple[int, int]]
"""Of each API key that a listener serves, the first and the last version."""

# A header up to the client id's length: it is the same in both of its versions.
HEADER_START = Packing(">hhih")
_PRODUCE = int(ApiKey.PRODUCE)
LENGTH_AND_CORRELATION = Packing(">ii")
LENGTH_CORRELATION_AND_TAGS = Packing(">iix")

ELEMENTS_AT_ONCE_MAX = 150
"""Array elements and tags of a request that is decoded, and as a rule handled, in one go: a
partition to produce to takes some 20 microseconds."""


class Request(NamedTuple):
    """What a client asks. The version is for the answer's way back to the wire alone."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Message


class Undecoded(Message, versions=(0, 0)):
    """Stands for the body of a request that has so many elements that it is decoded in pieces:
    wire/large.py."""

    frame: memoryview
    position: int


class UnknownVersion(Message, versions=(0, 0)):
    """Stands for the body of an ApiVersions request of the future: nobody here can read it, but
    it is answered all the same, in version 0."""


_headers: dict[tuple[int, int], Packing] = {}
_decoders: dict[tuple[int, int], tuple[Decoder, bool]] = {}
"""Of the requests that have come so far, with whether there are tags behind the header: finding the
class and its decoder takes a while."""
_answer_decoders: dict[tuple[int, int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], tuple[Encoder, bytes]] = {}
"""Likewise of requests of ours and their answers; with the tags behind the header."""


def decode_request(frame: memoryview, served: Served) -> Request | SingleProduce:
    """DecodeError if it is not one that is served: the connection is of no more use then.

    Bytes behind the request are ignored, as Kafka does.
    """
    if _PRODUCE in served:
        single = parse_produce(frame)
        if single is not None:
            return single
    return decode_any(frame, served)


def decode_any(frame: memoryview, served: Served) -> Request:
    """The same, by the general decoders alone."""
    if len(frame) < HEADER_START.size:
        raise DecodeError(f"a request of {len(frame)} bytes")
    key, version, correlation_id, size = HEADER_START.unpack_from(frame)
    versions = served.get(key)
    if versions is None:
        raise DecodeError(f"API key {key} is not served")
    if not versions[0] <= version <= versions[1]:
        return _refuse_version(key, version, versions, correlation_id)
    decode, has_tags = _decoders.get((key, version)) or _decoder(key, version)
    client_id, position = _read_client_id(frame, size)
    if has_tags:
        try:
            position = skip_tags(frame, position)[0] if frame[position] else position + 1
        except IndexError:
            raise DecodeError("the header ends before its tags") from None
    try:
        message, _ = decode(frame, position, ELEMENTS_AT_ONCE_MAX)
    except ManyElements:
        message = Undecoded(frame=frame, position=position)
    return Request(key, version, correlation_id, client_id, message)


def _decoder(key: int, version: int) -> tuple[Decoder, bool]:
    found = decoder(request_class(key), version), APIS[key].is_flexible(version)
    _decoders[key, version] = found
    return found


def _refuse_version(
    key: int, version: int, versions: tuple[int, int], correlation_id: int
) -> Request:
    if key == ApiKey.API_VERSIONS:
        return Request(key, 0, correlation_id, None, UnknownVersion())
    first, last = versions
    name = APIS[key].name
    raise DecodeError(f"{name} v{version} is not served, only v{first} to v{last}")


def _read_client_id(frame: memoryview, size: int) -> tuple[str | None, int]:
    """Its length is an int16 even in flexible versions: so that every broker can read it."""
    start = HEADER_START.size
    if size < 0:
        if size < -1:
            raise DecodeError("client_id has a negative length")
        return None, start
    end = start + size
    if end > len(frame):
        raise DecodeError(f"the header ends {end - len(frame)} bytes early")
    try:
        return str(frame[start:end], "utf-8"), end
    except UnicodeDecodeError:
        raise DecodeError("client_id is not UTF-8") from None


def encode_response(request: Request, message: Message) -> list[Any]:
    """The frame of the answer as a list of buffers, records among them as they are."""
    key, version = request.key, request.version
    parts: list[Any] = [b""]
    encoder(type(message), version)(message, parts)
    header = _headers.get((key, version)) or _header(key, version)
    parts[0] = header.pack(sum(map(len, parts)) + header.size - 4, request.correlation_id)
    return parts


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> list[Any]:
    """The frame of a request of ours, as a list of buffers."""
    key = message.API_KEY
    assert key is not None
    encode, tags = _encoders.get((type(message), version)) or _encoder(type(message), version)
    name = b"" if client_id is None else client_id.encode()
    start = HEADER_START.pack(key, version, correlation_id, -1 if client_id is None else len(name))
    parts: list[Any] = [b"", start + name + tags]
    encode(message, parts)
    parts[0] = LENGTH.pack(sum(map(len, parts)))
    return parts


def _encoder(cls: type[Message], version: int) -> tuple[Encoder, bytes]:
    assert cls.API_KEY is not None
    tags = b"\0" if APIS[cls.API_KEY].is_flexible(version) else b""
    _encoders[cls, version] = encoder(cls, version), tags
    return _encoders[cls, version]


def decode_response(frame: memoryview, key: int, version: int, correlation_id: int) -> Message:
    """The answer to a request of ours; DecodeError if it is another's."""
    position = response_start(frame, key, version, correlation_id)
    decode = _answer_decoders.get((key, version))
    if decode is None:
        decode = _answer_decoders[key, version] = decoder(response_class(key), version)
    return decode(frame, position)[0]


def response_start(frame: memoryview, key: int, version: int, correlation_id: int) -> int:
    """Where an answer begins behind its header."""
    if len(frame) <= LENGTH.size:
        raise DecodeError(f"an answer of {len(frame)} bytes")
    (answered,) = LENGTH.unpack_from(frame)
    if answered != correlation_id:
        raise DecodeError(f"an answer to request {answered}, not {correlation_id}")
    if not APIS[key].response_header_version(version):
        return LENGTH.size
    try:
        return skip_tags(frame, LENGTH.size)[0] if frame[LENGTH.size] else LENGTH.size + 1
    except IndexError:
        raise DecodeError("the header ends before its tags") from None


def framed(request: Request, parts: list[Any]) -> list[Any]:
    """The same of a message that is encoded: the header takes the place of the first part."""
    header = _headers.get((request.key, request.version)) or _header(request.key, request.version)
    parts[0] = header.pack(sum(map(len, parts)) + header.size - 4, request.correlation_id)
    return parts


def _header(key: int, version: int) -> Packing:
    has_tags = APIS[key].response_header_version(version)
    _headers[key, version] = LENGTH_CORRELATION_AND_TAGS if has_tags else LENGTH_AND_CORRELATION
    return _headers[key, version]
