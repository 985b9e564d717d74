"""Cuts a broker's stream into answers, each in memory of its own.

The server's reader reuses its buffer, for a request dies where it is answered. Fetched records
live as long as their reader wants: a large answer is received straight into memory made for it,
a small one is copied out of the buffer, and neither changes when the next one arrives.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import FRAME_BYTES_MAX, LENGTH

BUFFER_BYTES = 64 << 10
SPARES_MAX = 2
"""Of a connection: one is received into while another is read."""
SPARE_BYTES_MAX = 5 << 20
"""Of each: what a fetch of 4 MiB needs."""


class AnswerFrames:
    """What has arrived of one connection's stream."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._end = 0
        """Behind the last byte in the buffer; its first is the first of a frame."""
        self._large: memoryview | None = None
        """A frame that does not fit into the buffer."""
        self._large_end = 0
        self._spares: list[bytearray] = []

    def buffer(self) -> memoryview:
        """Where the next bytes belong: never empty, and never beyond a large frame's end."""
        if self._large is not None:
            return self._large[self._large_end :]
        return self._buffer[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that became whole with these bytes; DecodeError if the stream is not one."""
        if self._large is not None:
            self._large_end += count
            if self._large_end == len(self._large):
                frame, self._large = self._large, None
                yield frame
            return
        self._end += count
        start = 0
        while self._end - start >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._buffer, start)
            if not 0 <= size <= self.frame_bytes_max:
                raise DecodeError(f"an answer of {size} bytes (at most {self.frame_bytes_max})")
            begin = start + LENGTH.size
            if begin + size > self._end:
                if LENGTH.size + size > BUFFER_BYTES:
                    self._begin_large(size, begin)
                    return
                break
            start = begin + size
            yield memoryview(bytes(self._buffer[begin:start]))
        self._move_to_front(start)

    def _begin_large(self, size: int, begin: int) -> None:
        """Claimed memory is not touched until bytes arrive for it, so a lie costs nothing."""
        arrived = self._end - begin
        self._large = self._memory(size)
        self._large[:arrived] = self._buffer[begin : self._end]
        self._large_end = arrived
        self._end = 0

    def _memory(self, size: int) -> memoryview:
        """What a large answer lay in that nobody reads any more, or new memory: that has to be
        cleared and mapped, which takes as long as to receive into it."""
        for spare in self._spares:
            if len(spare) >= size and _is_unread(spare):
                return memoryview(spare)[:size]
        if size > SPARE_BYTES_MAX:
            return memoryview(bytearray(size))
        made = bytearray(size + size // 8)
        self._spares = [spare for spare in self._spares if not _is_unread(spare)]
        if len(self._spares) < SPARES_MAX:
            self._spares.append(made)
        return memoryview(made)[:size]

    def _move_to_front(self, start: int) -> None:
        pending = bytes(self._buffer[start : self._end])
        self._buffer[: len(pending)] = pending
        self._end = len(pending)


def _is_unread(buffer: bytearray) -> bool:
    """Whether no view of it exists: then, and only then, its size may change."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
