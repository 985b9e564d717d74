"""A frame to a request and a response to a frame: headers, versions, and who is refused."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct as Packing
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.wire.api import APIS, ApiKey, request_class
from tidelog.wire.codec import decoder, encoder
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.headers import RequestHeader, ResponseHeader

Served = Mapping[int, tuple[int, int]]
"""Of each API key that a listener serves, the first and the last version."""

KEY_AND_VERSION = Packing(">hh")
LENGTH = Packing(">i")


class Request(NamedTuple):
    """What a client asks. The version is for the answer's way back to the wire alone."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Message


class UnsupportedApiVersions(Exception):
    """ApiVersions in a version of the future: the one request that is answered all the same."""

    def __init__(self, correlation_id: int) -> None:
        super().__init__(correlation_id)
        self.correlation_id = correlation_id


def decode_request(frame: memoryview, served: Served) -> Request:
    """DecodeError if it is not one that is served: the connection is of no more use then.

    Bytes behind the request are ignored, as Kafka does.
    """
    if len(frame) < KEY_AND_VERSION.size:
        raise DecodeError(f"a request of {len(frame)} bytes")
    key, version = KEY_AND_VERSION.unpack_from(frame)
    api = APIS.get(key)
    if api is None or key not in served:
        raise DecodeError(f"API key {key} is not served")
    header, position = decoder(RequestHeader, api.request_header_version(version))(frame, 0)
    assert isinstance(header, RequestHeader)
    first, last = served[key]
    if not first <= version <= last:
        if key == ApiKey.API_VERSIONS:
            raise UnsupportedApiVersions(header.correlation_id)
        raise DecodeError(f"{api.name} v{version} is not served, only v{first} to v{last}")
    message, _ = decoder(request_class(key), version)(frame, position)
    return Request(key, version, header.correlation_id, header.client_id, message)


def encode_response(request: Request, message: Message) -> list[Any]:
    """The frame of the answer as a list of buffers, records among them as they are."""
    return _frame(request.key, request.version, request.correlation_id, message)


def refuse_api_versions(refused: UnsupportedApiVersions, served: Served) -> list[Any]:
    """Error 35 in the form of version 0, with the versions that would have been understood."""
    from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

    first, last = served[ApiKey.API_VERSIONS]
    message = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last),),
    )
    return _frame(ApiKey.API_VERSIONS, 0, refused.correlation_id, message)


def _frame(key: int, version: int, correlation_id: int, message: Message) -> list[Any]:
    parts: list[Any] = [b""]
    header_version = APIS[key].response_header_version(version)
    encoder(ResponseHeader, header_version)(ResponseHeader(correlation_id=correlation_id), parts)
    encoder(type(message), version)(message, parts)
    parts[0] = LENGTH.pack(sum(map(len, parts)))
    return parts
