"""Messages as lines that a person can read: without what is as it always is."""

from __future__ import annotations

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.wire.api import APIS
from tidelog.wire.batch import BatchWalk
from tidelog.wire.declare import Struct
from tidelog.wire.decoder import DecodeError
from tidelog.wire.request import HEADER_START, decode_any, decode_response

UUID_BYTES = 16
UUID_SHOWN = 4
"""Hex digits that tell ids apart in one run."""


def brief(value: Any) -> str:
    """A message, or a part of one."""
    if isinstance(value, Struct):
        name = type(value).__name__
        fields = [_field(value, field) for field in type(value).FIELDS]
        shown = " ".join(field for field in fields if field)
        return f"{name}({shown})" if shown else name
    if isinstance(value, tuple):
        return f"[{', '.join(map(brief, value))}]"
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value))
    return str(value)


def _field(struct: Struct, name: str) -> str:
    value = getattr(struct, name)
    default = type(struct).FIELDS[name].default
    if value == default or value in (None, (), b"", "") or name.startswith("throttle"):
        return ""
    if name == "error_code":
        return ErrorCode(value).name if value else ""
    return f"{name}={brief(value)}"


def _bytes(value: bytes) -> str:
    if len(value) == UUID_BYTES:
        return value.hex()[-UUID_SHOWN:] if not any(value[:8]) else value.hex()[:UUID_SHOWN]
    batches = [
        f"{batch.base_offset}-{batch.last_offset}/{batch.partition_leader_epoch}"
        for batch in BatchWalk(value)
    ]
    return f"<{' '.join(batches)}>" if batches else f"<{len(value)} bytes>"


class Readable:
    """What goes over connections, in words. It remembers what was asked, for answers to make
    sense."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int, int], tuple[int, int]] = {}

    def received(self, machine: str, connection: int, frame: memoryview) -> None:
        """A request that this machine will answer."""
        key, version, correlation_id, _ = HEADER_START.unpack_from(frame)
        self._asked[machine, connection, correlation_id] = key, version

    def sent(self, machine: str, connection: int, frame: bytes) -> str:
        body = memoryview(frame)[4:]
        try:
            if connection < 0:
                served = {key: api.versions for key, api in APIS.items()}
                return brief(decode_any(body, served).message)
            correlation_id = int.from_bytes(body[:4], "big")
            key, version = self._asked.pop((machine, connection, correlation_id))
            return brief(decode_response(body, key, version, correlation_id))
        except (DecodeError, KeyError) as error:
            return f"{len(frame)} bytes ({error})"
