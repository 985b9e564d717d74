"""Nothing leaves before it is true on disk: answers wait until quorum-state is durable.

The node's role changes in memory at once. What others would learn of it, a vote above all, is
held back here until the file says the same; a crash before that leaves nobody deceived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidelog.env import DiskFull, Now
from tidelog.raft.election_state import StateFile
from tidelog.raft.types import NEVER, Flush

DISK_FULL_RETRY_MS = 1000

Action = Callable[[Now], None]


class Gate:
    """Actions in the order in which they came. At most one write is under way."""

    def __init__(
        self, path: str, flush: Flush, failed: Callable[[str], None], settle: Action
    ) -> None:
        self._path = path
        self._flush = flush
        self._failed = failed
        self._settle = settle
        self._content: bytes | None = None
        """What the file has to say and does not yet."""
        self._is_writing = False
        self._waiting: deque[Action] = deque()
        self.retry_ms = NEVER

    @property
    def is_open(self) -> bool:
        """Whether the file says what the node thinks."""
        return self._content is None and not self._is_writing

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    def store(self, content: bytes) -> None:
        """What is to be written before anything else leaves."""
        self._content = content

    def when_open(self, action: Action) -> None:
        """Do it once all that was stored is durable; see `work`."""
        self._waiting.append(action)

    def work(self, now: Now) -> bool:
        """Write what is to be written, do what may be done; whether that was anything."""
        if self._content is not None and not self._is_writing:
            if now.monotonic_ms < self.retry_ms < NEVER:
                return False
            self._write(self._content)
            return True
        if not self.is_open or not self._waiting:
            return False
        self._waiting.popleft()(now)
        return True

    def _write(self, content: bytes) -> None:
        self._content, self._is_writing, self.retry_ms = None, True, NEVER

        def done(error: OSError | DiskFull | None, now: Now) -> None:
            self._is_writing = False
            if isinstance(error, DiskFull):
                if self._content is None:
                    self._content = content
                self.retry_ms = now.monotonic_ms + DISK_FULL_RETRY_MS
            elif error is not None:
                self._failed(f"{self._path} cannot be written: {error}")
                self._is_writing = True  # and nothing leaves any more
                return
            self._settle(now)

        self._flush((StateFile(self._path, content),), done)
