"""Cuts a stream of bytes into frames: a length (int32), then as many bytes.

The bytes are received where they stay: `buffer` gives the place, `received` the frames. A frame
is a view of that place, good until the next call of `buffer`; who needs it longer copies it.
While `is_held`, the frames that have arrived stay here: `frames` gives them afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Packing

from tidelog.wire.decoder import DecodeError

FRAME_BYTES_MAX = 100 << 20
"""Kafka's default of socket.request.max.bytes."""
BUFFER_BYTES_MIN = 32 << 10
"""What an idle connection costs."""
BUFFER_BYTES_KEPT_MAX = 1 << 20
"""A connection whose bytes fill its buffer gets a larger one, up to this: several requests for
one system call. One that grew beyond it for a large frame is kept if it may be."""
LARGE_BYTES_MAX = 4 << 20
LARGE_BYTES_ALL_MAX = 64 << 20
"""Of one that is kept although it is large, and of all of those: a new one for each of a peer's
large frames costs as much as all else that is done with it."""
UNNEEDED_MAX = 100
"""Reads that would have fitted into a smaller one: then others may have it."""

LENGTH = Packing(">i")


class LargeBuffers:
    """How many more bytes of a process may be kept in them."""

    bytes_left = LARGE_BYTES_ALL_MAX


class FrameReader:
    """What has arrived of one connection's stream."""

    def __init__(
        self, frame_bytes_max: int = FRAME_BYTES_MAX, *, buffer_bytes: int = BUFFER_BYTES_MIN
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.is_held = False
        self._view = memoryview(bytearray(buffer_bytes))
        self._start = 0
        """Where the first frame that is not whole begins."""
        self._end = 0
        """Behind the last byte that arrived."""
        self._kept_bytes = 0
        """The buffer's, if it is kept although it is large."""
        self._unneeded = 0
        """Reads since one that filled so much of it."""

    def buffer(self, sizehint: int = -1) -> memoryview:
        """Where the next bytes belong: never empty. No size that is asked for is heeded."""
        if self._start == self._end:
            if len(self._view) > BUFFER_BYTES_KEPT_MAX:
                self._keep_or_drop(self._end > BUFFER_BYTES_KEPT_MAX)
            self._start = self._end = 0
            return self._view
        if self._end == len(self._view):
            self._make_room()
        return self._view[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that became whole with these bytes; DecodeError if the stream is not one."""
        frame = self.only(count)
        return self.frames() if frame is None else iter((frame,))

    def only(self, count: int) -> memoryview | None:
        """The one frame that these bytes are, in the usual case, which needs no loop. Else what
        they are is for `frames` to tell."""
        self._end += count
        if self._start == 0 and self._end > LENGTH.size and not self.is_held:
            (size,) = LENGTH.unpack_from(self._view)
            if LENGTH.size + size == self._end and size <= self.frame_bytes_max:
                self._start = self._end
                return self._view[LENGTH.size : self._end]
        return None

    def frames(self) -> Iterator[memoryview]:
        """The whole ones that nobody took yet; no more of them once `is_held` is set."""
        while self._end - self._start >= LENGTH.size and not self.is_held:
            (size,) = LENGTH.unpack_from(self._view, self._start)
            if not 0 <= size <= self.frame_bytes_max:
                raise DecodeError(f"a frame of {size} bytes (at most {self.frame_bytes_max})")
            begin = self._start + LENGTH.size
            if begin + size > self._end:
                break
            self._start = begin + size
            yield self._view[begin : begin + size]

    @property
    def pending_bytes(self) -> int:
        """What arrived and was not taken."""
        return self._end - self._start

    def shrink(self) -> None:
        """Nothing came for a while: cost what an idle connection costs."""
        if self._start == self._end and len(self._view) > BUFFER_BYTES_MIN:
            self._replace(BUFFER_BYTES_MIN)
            self._start = self._end = 0

    def close(self) -> None:
        """Nothing more will come: a large buffer may be another's."""
        LargeBuffers.bytes_left += self._kept_bytes
        self._kept_bytes = 0

    __del__ = close

    def _keep_or_drop(self, was_needed: bool) -> None:
        size = len(self._view)
        self._unneeded = 0 if was_needed else self._unneeded + 1
        if self._kept_bytes:
            if self._unneeded > UNNEEDED_MAX:
                self._replace(BUFFER_BYTES_MIN)
        elif size <= min(LARGE_BYTES_MAX, LargeBuffers.bytes_left):
            LargeBuffers.bytes_left -= size
            self._kept_bytes = size
        else:
            self._replace(BUFFER_BYTES_MIN)

    def _replace(self, size: int) -> None:
        self.close()
        self._view = memoryview(bytearray(size))

    def _make_room(self) -> None:
        """Moves the frame that is not whole to the front of a larger buffer: this one was filled.

        The buffer grows with what arrives, not with what is claimed: at most it doubles.
        """
        pending = self._view[self._start : self._end]
        old = self._view
        if len(pending) == len(old) or len(old) < BUFFER_BYTES_KEPT_MAX:
            self._replace(2 * len(old))
        self._view[: len(pending)] = pending
        self._start, self._end = 0, len(pending)
