"""Ids and offsets: names for the integers and bytes that every layer passes around."""

from __future__ import annotations

import binascii
from typing import NewType

Offset = int
"""A record's place in its partition: 64 bits, dense, never reassigned."""

Uuid = NewType("Uuid", bytes)
"""Sixteen raw bytes. Text, where people see it, is Kafka's: base64url without padding."""

ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def format_uuid(uuid: Uuid) -> str:
    """The 22 characters that Kafka prints."""
    text = binascii.b2a_base64(uuid, newline=False)
    return text.translate(_TO_URL_SAFE).rstrip(b"=").decode()


def parse_uuid(text: str) -> Uuid:
    """The inverse of format_uuid; ValueError if text is not a uuid."""
    try:
        raw = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL_SAFE) + b"==")
    except (binascii.Error, UnicodeEncodeError):
        raw = b""
    if len(text) != 22 or len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid: want 22 characters of base64url")
    return Uuid(raw)
