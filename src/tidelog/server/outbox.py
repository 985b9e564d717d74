"""What a connection still has to send. File slices are read when the peer can take them.

So a slow reader costs the transport's buffer, not the megabytes that it asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tidelog.env import FileSlice

READ_BYTES_MAX = 1 << 20
"""Of a file at once: a moment's work."""
JOINED_BYTES_MAX = 16 << 10
"""To copy so little takes less than to tell the kernel of every piece."""
UNSENT_BYTES_MAX = 512 << 10
"""In the transport; beyond it nothing more is read for this peer."""


class Outbox:
    """The frames to one peer, in order."""

    def __init__(self, transport: asyncio.Transport, fail: Callable[[str], None]) -> None:
        transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._transport = transport
        self._fail = fail
        self._parts: deque[Any] = deque()
        self._is_paused = False

    @property
    def is_empty(self) -> bool:
        return not self._parts

    @property
    def unsent_bytes(self) -> int:
        """What this peer costs in memory; slices that were not read yet cost nothing."""
        waiting = sum(len(part) for part in self._parts if not isinstance(part, FileSlice))
        return waiting + self._transport.get_write_buffer_size()

    def push(self, parts: list[Any]) -> bool:
        """Whether that is the first since the last flush."""
        is_first = not self._parts
        self._parts.extend(parts)
        return is_first

    def flush(self) -> None:
        """Write what was pushed, as far as the peer takes it."""
        parts = self._parts
        if len(parts) == 1 and not self._is_paused and type(parts[0]) is bytes:
            self._transport.write(parts.pop())  # the usual case
        else:
            self._pump()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._pump()

    def _pump(self) -> None:
        """Write until the peer has enough for now: the transport calls pause then."""
        parts = self._parts
        while parts and not self._is_paused:
            ready: list[Any] = []
            size = 0
            while parts and size < READ_BYTES_MAX:
                part = parts.popleft()
                if isinstance(part, FileSlice):
                    part = self._read(part, READ_BYTES_MAX - size)
                    if part is None:
                        return
                size += len(part)
                ready.append(part)
            if size <= JOINED_BYTES_MAX:
                self._transport.write(b"".join(ready))
            else:
                self._transport.writelines(ready)

    def _read(self, part: FileSlice, size_max: int) -> bytes | None:
        """The beginning of a slice; what is left of it goes back to the front."""
        size = min(part.size, size_max)
        try:
            data = part.file.read(part.position, size)
        except OSError as error:
            self._fail(f"a promised slice cannot be read: {error}")
            return None
        if len(data) < size:
            # The file was cut meanwhile: the length is promised, so only hanging up is honest.
            self._fail(f"a segment ended {size - len(data)} bytes before a promised slice")
            return None
        if size < part.size:
            self._parts.appendleft(FileSlice(part.file, part.position + size, part.size - size))
        return data
