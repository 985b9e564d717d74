"""How the 61 bytes before a batch's records are laid out: for the batch's view and for the twin."""

from __future__ import annotations

import struct

HEADER = struct.Struct(">qiibIhiqqqhii")
assert HEADER.size == 61

LENGTH_END = 12
"""Base offset and length; the length counts what comes after it."""
CRC_START = 21
"""The checksum covers all from here on: neither the base offset nor the leader epoch, so that a
broker may write both without renewing it."""
MAGIC = 2

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
