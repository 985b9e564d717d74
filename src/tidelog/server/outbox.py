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
"""In the transport; beyond it nothing more is read for this peer, or from it."""
UNSENT_BYTES_NODE_MAX = 128 << 20
"""To all peers of a node. Near it memory is scarce: see Unsent."""
SCARCE_READ_BYTES_MAX = 64 << 10
"""READ_BYTES_MAX while it is."""


class Unsent:
    """What all peers of a node together were sent and have not taken yet: bounded, however many
    of them read slowly.

    Near the limit memory is scarce: who has anything unsent is neither read from nor sent more
    until it took that, and who has not gets little at once. So those who read are served on, and
    what is unsent grows by a small piece (or one answer) for each peer at most.

    Answers that wait in the node for others to go first count, too; the node bounds them itself.

    A transport does not tell what it got rid of. So all are measured, each time when a quarter
    of the limit was handed to them.
    """

    def __init__(
        self, bytes_max: int = UNSENT_BYTES_NODE_MAX, waiting_bytes: Callable[[], int] = int
    ) -> None:
        self.bytes_max = bytes_max
        self._waiting_bytes = waiting_bytes
        self.measured_after_bytes = bytes_max // 4
        self.added_bytes = 0
        """Since it was measured."""
        self.is_scarce = False
        self._outboxes: dict[Outbox, None] = {}

    def add(self, outbox: Outbox) -> None:
        self._outboxes[outbox] = None

    def remove(self, outbox: Outbox) -> None:
        self._outboxes.pop(outbox, None)

    @property
    def bytes(self) -> int:
        return self._waiting_bytes() + sum(outbox.unsent_bytes for outbox in self._outboxes)

    def measure(self) -> None:
        self.added_bytes = 0
        # The two limits lie apart, lest all transports be told at every measure.
        limit = self.bytes_max // 2 if self.is_scarce else self.bytes_max * 3 // 4
        is_scarce = self.bytes > limit
        if is_scarce != self.is_scarce:
            self.is_scarce = is_scarce
            for outbox in self._outboxes:
                outbox.limit(is_scarce)


class Outbox:
    """The frames to one peer, in order."""

    def __init__(
        self,
        transport: asyncio.Transport,
        fail: Callable[[OSError | EOFError], None],
        unsent: Unsent,
    ) -> None:
        self._transport = transport
        self._fail = fail
        """Told why a slice cannot be read: by the disk's fault, or because it was cut."""
        self._unsent = unsent
        self._parts: deque[Any] = deque()
        self.waiting_bytes = 0
        """Of the parts; slices that were not read yet cost nothing."""
        self._is_paused = False
        self.is_open = True
        """Whether what is pushed is still to be sent."""
        self.limit(unsent.is_scarce)
        unsent.add(self)

    def limit(self, is_scarce: bool) -> None:
        """How much the transport, and one read of a file, may hold."""
        self._read_bytes_max = SCARCE_READ_BYTES_MAX if is_scarce else READ_BYTES_MAX
        if not self._transport.is_closing():
            # Zero: who has anything unsent is paused at once, and resumed when that is gone.
            self._transport.set_write_buffer_limits(high=0 if is_scarce else UNSENT_BYTES_MAX)

    def discard(self) -> None:
        """The peer is gone."""
        self.is_open = False
        self._clear()
        self._unsent.remove(self)

    def _clear(self) -> None:
        self._parts.clear()
        self.waiting_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._parts

    @property
    def unsent_bytes(self) -> int:
        """What this peer costs in memory."""
        return self.waiting_bytes + self._transport.get_write_buffer_size()

    @property
    def left_bytes(self) -> int:
        """What this peer has still to take, in memory or not."""
        slices = (part.size for part in self._parts if isinstance(part, FileSlice))
        return self.unsent_bytes + sum(slices)

    def push(self, parts: list[Any]) -> bool:
        """Whether a flush is to follow soon: this is the first since the last one."""
        if not self.is_open:
            return False
        is_first = not self._parts
        self._parts.extend(parts)
        for part in parts:
            if part.__class__ is not FileSlice:
                self.waiting_bytes += len(part)
        if self.waiting_bytes > UNSENT_BYTES_MAX and not is_first:
            self.flush()  # so much at once that the transport may want a pause
        return is_first

    def flush(self) -> None:
        """Write what was pushed, as far as the peer takes it."""
        parts = self._parts
        if len(parts) == 1 and not self._is_paused and type(parts[0]) is bytes:
            unsent = self._unsent
            unsent.added_bytes += self.waiting_bytes
            self.waiting_bytes = 0
            self._transport.write(parts.pop())  # the usual case
            if unsent.added_bytes > unsent.measured_after_bytes:
                unsent.measure()
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
            failure: OSError | EOFError | None = None
            ready: list[Any] = []
            size = 0
            try:
                while parts and size < self._read_bytes_max:
                    part = parts.popleft()
                    if isinstance(part, FileSlice):
                        part = self._read(part, self._read_bytes_max - size)
                    else:
                        self.waiting_bytes -= len(part)
                    size += len(part)
                    ready.append(part)
            except (OSError, EOFError) as error:
                # Its length is promised: only hanging up is honest, and nothing may take its place.
                self._clear()
                failure = error
            if size <= JOINED_BYTES_MAX:
                self._transport.write(b"".join(ready))
            else:
                self._transport.writelines(ready)
            self._unsent.added_bytes += size
            if self._unsent.added_bytes > self._unsent.measured_after_bytes:
                self._unsent.measure()
            if failure is not None:
                self._fail(failure)

    def _read(self, part: FileSlice, size_max: int) -> bytes:
        """The beginning of a slice; what is left of it goes back to the front."""
        size = min(part.size, size_max)
        data = part.file.read(part.position, size)
        if len(data) < size:
            raise EOFError(f"the segment was cut {size - len(data)} bytes before its end")
        if size < part.size:
            self._parts.appendleft(FileSlice(part.file, part.position + size, part.size - size))
        return data
