"""A connection as the process at one end of it sees it, and the frames that it sends there."""

from __future__ import annotations

from typing import Any

from tidelog.env import FileSlice
from tidelog.events import ConnectionId
from tidelog.sim.network import Socket
from tidelog.wire.frame import FrameReader
from tidelog.wire.request import Served

BUFFER_BYTES = 2 << 10
"""Of a connection at first: thousands are made in a run, and most carry little."""


class Connection:
    """A socket, with what came and what is to be sent."""

    __slots__ = ("frames", "held", "id", "listener", "served", "socket", "unsent")

    def __init__(
        self, number: ConnectionId, socket: Socket, listener: str | None, served: Served
    ) -> None:
        self.id = number
        self.socket = socket
        self.listener = listener
        """By which somebody reached us; None if it was us who connected."""
        self.served = served
        self.frames = FrameReader(buffer_bytes=BUFFER_BYTES)
        self.held: bytearray | None = None
        """What came while it is not read from."""
        self.unsent: list[list[Any]] = []


def joined(parts: list[Any]) -> bytes:
    """A frame's bytes, with what lies in files. Raises OSError, and EOFError if a file has been
    cut since: the frame's length is promised, so that nothing but hanging up is left."""
    for part in parts:
        if part.__class__ is FileSlice:
            return b"".join([_read(p) if isinstance(p, FileSlice) else p for p in parts])
    return b"".join(parts)


def _read(part: FileSlice) -> bytes:
    data = part.read()
    if len(data) < part.size:
        raise EOFError(f"the segment was cut {part.size - len(data)} bytes before its end")
    return data
