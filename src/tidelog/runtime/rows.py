"""Answers wait in rows, one for each connection: requests are answered in their order."""

from __future__ import annotations

from collections import deque
from typing import Any

from tidelog.env import FileSlice
from tidelog.events import ConnectionId
from tidelog.runtime.purgatory import Delayed
from tidelog.wire.headers import ResponseHeader
from tidelog.wire.request import Request

WAITING_MAX = 1000
"""Answers that may wait in one connection's row: beyond that we stop reading from it."""
WAITING_BYTES_MAX = 512 << 10
"""Of those that are encoded already and wait for one before them: beyond that, too."""
WAITING_BYTES_NODE_MAX = 32 << 20
"""In all rows: beyond that nobody is read from who has any. So it is exceeded by one answer for
each connection at most."""

NO_MESSAGE = ResponseHeader(correlation_id=0)
_new = tuple.__new__
"""Without the detours of a named tuple: once a request."""


class Waiting:
    """A place in a row."""

    __slots__ = ("bytes", "delayed", "parts", "request")

    def __init__(self, request: Request) -> None:
        # Without its message, whose records would keep the frame's memory for as long.
        self.request = request
        if request.message is not NO_MESSAGE:
            self.request = _new(Request, (*request[:4], NO_MESSAGE))
        self.delayed: Delayed | None = None
        self.parts: list[Any] | None = None
        """The answer, encoded; none at all where the client wants none."""
        self.bytes = 0
        """Of the parts; slices that were not read yet cost nothing."""


class Row(deque[Waiting]):
    """A connection's places, none of them both first and filled."""

    bytes = 0


class Rows(dict[ConnectionId, Row]):
    """Those that are not empty."""

    bytes = 0

    def add(self, connection: ConnectionId, request: Request) -> Waiting:
        """A place behind all others of the connection."""
        waiting = Waiting(request)
        row = self.get(connection)
        if row is None:
            row = self[connection] = Row()
        row.append(waiting)
        return waiting

    def fill(self, connection: ConnectionId, waiting: Waiting, parts: list[Any]) -> None:
        """The answer is there, and leaves when those before it have."""
        row = self.get(connection)
        if row is None:
            return  # the client is gone
        waiting.parts = parts
        size = 0
        for part in parts:
            if part.__class__ is not FileSlice:
                size += len(part)
        waiting.bytes = size
        row.bytes += size
        self.bytes += size

    def take_alone(self, connection: ConnectionId, waiting: Waiting) -> bool:
        """Whether nothing else of the connection waits: then its row is gone."""
        row = self.get(connection)
        if row is None or len(row) > 1 or row[0] is not waiting:
            return False
        del self[connection]
        return True

    def take_ready(self, connection: ConnectionId) -> list[list[Any]]:
        """What has nothing before it any more."""
        row = self[connection]
        ready = []
        while row and row[0].parts is not None:
            waiting = row.popleft()
            row.bytes -= waiting.bytes
            self.bytes -= waiting.bytes
            if waiting.parts:
                ready.append(waiting.parts)
        if not row:
            del self[connection]
        return ready

    def is_full(self, connection: ConnectionId) -> bool:
        """Whether the client may not ask for more."""
        row = self.get(connection)
        if row is None:
            return False
        bytes_max = WAITING_BYTES_MAX if self.bytes <= WAITING_BYTES_NODE_MAX else 0
        return len(row) > WAITING_MAX or row.bytes > bytes_max

    def has_room(self, connection: ConnectionId) -> bool:
        """Whether it may again: not at once, lest it be told after every answer."""
        row = self.get(connection)
        if row is None:
            return True
        return len(row) <= WAITING_MAX // 2 and row.bytes <= WAITING_BYTES_MAX // 2

    def remove(self, connection: ConnectionId) -> Row:
        """The client is gone."""
        row = self.pop(connection, Row())
        self.bytes -= row.bytes
        return row
