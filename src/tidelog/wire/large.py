"""Requests and responses of very many elements, decoded and encoded in pieces (slices.py)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tidelog.slices import Slices
from tidelog.wire.api import request_class
from tidelog.wire.codec import sliced_decoder, sliced_encoder
from tidelog.wire.declare import Message
from tidelog.wire.request import Request, Undecoded, framed

REQUEST_ELEMENTS_MAX = 100_000
"""Array elements and tags of one request: to free so many objects alone takes some milliseconds,
and that cannot be cut."""
PARTS_MAX = 500
"""So many small buffers become one: whoever sends them should not have to look at each."""


def decode_large(request: Request) -> Slices[Request]:
    """The request with its message; DecodeError if it is none."""
    undecoded = request.message
    assert isinstance(undecoded, Undecoded)
    decode = sliced_decoder(request_class(request.key), request.version)
    message, _ = yield from decode(undecoded.frame, undecoded.position, REQUEST_ELEMENTS_MAX)
    return request._replace(message=message)


def encode_large(request: Request, message: Message) -> Slices[list[Any]]:
    """The frame of the answer as a list of buffers, records among them as they are."""
    done: list[Any] = [b""]
    parts: list[Any] = []
    for cost in sliced_encoder(type(message), request.version)(message, parts):
        if len(parts) > PARTS_MAX:
            done += _joined(parts)
            parts.clear()
        yield cost
    return framed(request, done + _joined(parts))


def _joined(parts: list[Any]) -> list[Any]:
    """The same bytes in fewer parts; what is not in memory stays as it is."""
    joined: list[Any] = []
    for is_bytes, run in groupby(parts, lambda part: type(part) is bytes):
        if is_bytes:
            joined.append(b"".join(run))
        else:
            joined.extend(run)
    return joined
