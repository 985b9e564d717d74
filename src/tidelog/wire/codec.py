"""Messages to bytes and back. Versions die here: nothing above the wire asks for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError, build_decoder
from tidelog.wire.encoder import build_encoder


class UnsupportedVersion(ValueError):
    """We asked for a version of a message that there is not."""


M = TypeVar("M", bound=Message)
Decoder = Callable[..., tuple[Message, int]]
Encoder = Callable[[Message, list[Any]], None]
SlicedDecoder = Callable[[memoryview, int, int], Slices[tuple[Message, int]]]
SlicedEncoder = Callable[[Message, list[Any]], Slices[None]]


_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}
_sliced_decoders: dict[tuple[type[Message], int], SlicedDecoder] = {}
_sliced_encoders: dict[tuple[type[Message], int], SlicedEncoder] = {}


def decoder(cls: type[Message], version: int) -> Decoder:
    """The function that decodes this version: (view, position) -> (message, position behind). A
    third argument says how many elements the message may have."""
    function = _decoders.get((cls, version))
    if function is None:
        _require_version(cls, version)
        function = _decoders[cls, version] = build_decoder(cls, version)
    return function


def encoder(cls: type[Message], version: int) -> Encoder:
    """The function that encodes this version: appends the message's buffers to a list."""
    function = _encoders.get((cls, version))
    if function is None:
        _require_version(cls, version)
        function = _encoders[cls, version] = build_encoder(cls, version)
    return function


def sliced_decoder(cls: type[Message], version: int) -> SlicedDecoder:
    """The same for a message of very many elements, in pieces."""
    function = _sliced_decoders.get((cls, version))
    if function is None:
        _require_version(cls, version)
        function = build_decoder(cls, version, in_slices=True)
        _sliced_decoders[cls, version] = function
    return function


def sliced_encoder(cls: type[Message], version: int) -> SlicedEncoder:
    function = _sliced_encoders.get((cls, version))
    if function is None:
        _require_version(cls, version)
        function = build_encoder(cls, version, in_slices=True)
        _sliced_encoders[cls, version] = function
    return function


def decode(cls: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    """The one message that fills `data`; DecodeError if it does not."""
    view = memoryview(data)
    message, end = decoder(cls, version)(view, 0)
    if end != len(view):
        raise DecodeError(f"{cls.__name__} v{version}: {len(view) - end} bytes too many")
    assert isinstance(message, cls)
    return message


def encode(message: Message, version: int) -> bytes:
    """The message's bytes; EncodeError if this version cannot say it."""
    parts: list[Any] = []
    encoder(type(message), version)(message, parts)
    return b"".join(parts)


def _require_version(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise UnsupportedVersion(f"{cls.__name__} has versions {first} to {last}, not {version}")
