"""The cluster's metadata on this node: the active controller writes it, all roles act upon it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.events import StopProcess
from tidelog.log.log import Log
from tidelog.metadata.image import MetadataImage
from tidelog.raft.metadata_log import Committed, MetadataLog
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices
from tidelog.wire.declare import Message

FULL_DISK_MS = 1000
"""How long a flush waits that found the disk full."""
TELL_COST = 10
"""Microseconds (slices.py)."""

Act = Callable[[Sequence[Message], Now], Slices[None]]
"""What newly committed records mean for a role."""


class Metadata:
    """The log, and who waits for it."""

    def __init__(self, quorum: MetadataLog, runtime: Runtime) -> None:
        self.quorum = quorum
        self._runtime = runtime
        self._actors: list[Act] = []
        self._committed: deque[tuple[list[Message], list[Committed]]] = deque()
        """Records that nobody has acted upon, with who waits for that."""
        self._is_acting = False
        self._is_flushing = False

    @property
    def latest(self) -> MetadataImage:
        """With all that was decided: what the next decision goes by."""
        return self.quorum.latest

    @property
    def image(self) -> MetadataImage:
        """The committed metadata: all that clients may be told."""
        return self.quorum.committed.shown

    @property
    def log(self) -> Log:
        return self.quorum.log

    @property
    def kraft_version(self) -> int:
        return self.quorum.kraft_version

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """Where the active controller is, if it is known and not this node."""
        return None

    @property
    def has_pending(self) -> bool:
        return self.quorum.has_pending

    def acted_upon_by(self, act: Act) -> None:
        """Roles act in the order in which they come."""
        self._actors.append(act)

    def append(
        self, records: Sequence[Message], now: Now, then: Committed | None = None
    ) -> Slices[ErrorCode]:
        """All of them or none; then is called once they are committed and acted upon. Nothing
        else may be appended before the last piece of this."""
        error = yield from self.quorum.append_in_slices(records, now, then)
        if error is ErrorCode.NONE:
            self._flush(now)
        return error

    def _flush(self, now: Now) -> None:
        """One flush at a time: what is appended meanwhile shares the next one."""
        if self._is_flushing:
            return
        log = self.quorum.log
        try:
            unflushed = log.unflushed(now)
        except DiskFull:
            self._flush_later(now)
            return
        if unflushed is None:
            return
        self._is_flushing = True

        def done(error: OSError | DiskFull | None, now: Now) -> None:
            self._is_flushing = False
            if isinstance(error, DiskFull):
                log.flush_failed()
                self._flush_later(now)
                return
            if error is not None:
                # A flush that failed may have lost anything: believing in it is not an option.
                reason = f"the metadata log cannot be flushed: {error}"
                self._runtime.effects.append(StopProcess(reason))
                return
            self.committed_up_to(unflushed.end_offset, now)
            if self.quorum.has_pending:
                self._flush(now)

        self._runtime.flush((unflushed,), done)

    def _flush_later(self, now: Now) -> None:
        self._runtime.schedule.at(now.monotonic_ms + FULL_DISK_MS, self._flush)

    def committed_up_to(self, end_offset: int, now: Now) -> None:
        """Act on what was committed, then tell those who waited for it. What is committed
        meanwhile is acted upon after that."""
        self._committed.append(self.quorum.flushed(end_offset))
        if not self._is_acting:
            self._runtime.jobs.start(self._act(now), now)

    def _act(self, now: Now) -> Slices[None]:
        self._is_acting = True
        try:
            while self._committed:
                records, called = self._committed.popleft()
                for act in self._actors:
                    yield from act(records, now)
                for then in called:
                    then(now)
                    yield TELL_COST
        finally:
            self._is_acting = False
