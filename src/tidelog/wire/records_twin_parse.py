"""Parses and writes single records; the twin's lowest layer.

    record: length varint, attributes i8, timestamp delta varlong, offset delta varint,
            key length varint, key, value length varint, value, header count varint, headers
    header: key length varint, key, value length varint, value

A varint is zigzag in groups of seven bits, low first. Positions are indexes into the block.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.wire.records_types import Flaw

_VARINT_BITS = 32
_VARLONG_BITS = 64

Header = tuple[bytes, bytes | None]
"""Key and value; the key is UTF-8 by the protocol, but nobody checks it."""


class Flawed(Exception):
    """The record at hand does not parse; caught where its index is known."""

    def __init__(self, flaw: Flaw) -> None:
        self.flaw = flaw


class ParsedRecord(NamedTuple):
    """Where a record's parts lie; a start of -1 means null."""

    timestamp_delta: int
    offset_delta: int
    tail_start: int
    key_start: int
    key_end: int
    value_start: int
    value_end: int
    headers_start: int
    end: int


def wrap_int64(value: int) -> int:
    """Two's complement, as Java and C add: a hostile delta must not make a third answer."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def parse_record(block: bytes, position: int, end: int) -> ParsedRecord:
    """The record that starts at position. Raises Flawed."""
    if position == end:
        raise Flawed(Flaw.TOO_FEW_RECORDS)
    length, position = read_varint(block, position, end, Flaw.TRUNCATED)
    if length < 0:
        raise Flawed(Flaw.BAD_LENGTH)
    if length > end - position:
        raise Flawed(Flaw.TRUNCATED)
    end = position + length
    if position == end:
        raise Flawed(Flaw.OVERRUN)
    # The attributes' byte has no meaning yet and is not looked at.
    timestamp_delta, position = _read_zigzag(block, position + 1, end, _VARLONG_BITS, Flaw.OVERRUN)
    tail_start = position
    offset_delta, position = read_varint(block, position, end)
    key_start, key_end, position = read_nullable(block, position, end)
    value_start, value_end, position = read_nullable(block, position, end)
    headers_start = position
    header_count, position = read_varint(block, position, end)
    if header_count < 0:
        raise Flawed(Flaw.BAD_HEADER_COUNT)
    # A header takes two bytes or more, so a false count soon runs into the record's end.
    for _ in range(header_count):
        header_key_start, _, position = read_nullable(block, position, end, Flaw.NULL_HEADER_KEY)
        if header_key_start < 0:
            raise Flawed(Flaw.NULL_HEADER_KEY)
        _, _, position = read_nullable(block, position, end)
    if position != end:
        raise Flawed(Flaw.TRAILING_IN_RECORD)
    return ParsedRecord(
        timestamp_delta,
        offset_delta,
        tail_start,
        key_start,
        key_end,
        value_start,
        value_end,
        headers_start,
        end,
    )


def read_nullable(
    block: bytes, position: int, end: int, negative: Flaw = Flaw.BAD_LENGTH
) -> tuple[int, int, int]:
    """Start and end of a length-prefixed field, and the position after it."""
    length, position = read_varint(block, position, end)
    if length == -1:
        return -1, -1, position
    if length < 0:
        raise Flawed(negative)
    if length > end - position:
        raise Flawed(Flaw.OVERRUN)
    return position, position + length, position + length


def read_field(block: bytes, start: int, end: int) -> bytes | None:
    """What lies between; null at -1."""
    return None if start < 0 else block[start:end]


def read_headers(block: bytes, position: int, end: int) -> list[Header]:
    """The headers of a record that has parsed."""
    count, position = read_varint(block, position, end)
    headers = []
    for _ in range(count):
        key_start, key_end, position = read_nullable(block, position, end)
        value_start, value_end, position = read_nullable(block, position, end)
        headers.append((block[key_start:key_end], read_field(block, value_start, value_end)))
    return headers


def read_varint(
    block: bytes, position: int, end: int, at_end: Flaw = Flaw.OVERRUN
) -> tuple[int, int]:
    """A 32-bit integer and the position after it."""
    if position < end and block[position] < 0x80:
        first = block[position]
        return (first >> 1) ^ -(first & 1), position + 1
    return _read_zigzag(block, position, end, _VARINT_BITS, at_end)


def _read_zigzag(block: bytes, position: int, end: int, bits: int, at_end: Flaw) -> tuple[int, int]:
    value = 0
    for shift in range(0, bits, 7):
        if position >= end:
            raise Flawed(at_end)
        byte = block[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Readers disagree about bits beyond the type's width, so they are refused.
            if value >> bits:
                raise Flawed(Flaw.BAD_VARINT)
            return (value >> 1) ^ -(value & 1), position
    raise Flawed(Flaw.BAD_VARINT)


def varint(value: int) -> bytes:
    """A varint or varlong; the two differ only in how much they can hold."""
    value = (value << 1) ^ (value >> 63)
    if value <= 0x7F:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def nullable(field: bytes | None) -> bytes:
    """A field with its length before it."""
    return b"\x01" if field is None else varint(len(field)) + field


def write_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...],
) -> bytes:
    """One whole record. ValueError if it is larger than a length can say."""
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta), nullable(key), nullable(value)]
    parts.append(varint(len(headers)))
    for header_key, header_value in headers:
        parts += nullable(header_key), nullable(header_value)
    body = b"".join(parts)
    if len(body) >= 1 << 31:
        raise ValueError("a record must be smaller than 2 GiB")
    return varint(len(body)) + body
