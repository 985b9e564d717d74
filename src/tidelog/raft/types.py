"""What the quorum is given by the node, and what it tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidelog.env import Disk, DiskFull, Now
from tidelog.errors import PeerFailure
from tidelog.metadata.snapshot import SnapshotId
from tidelog.types import ZERO_UUID, Offset, Uuid
from tidelog.wire.declare import Message

NOBODY = -1
"""As the id of a leader."""
LAST_EPOCH = (1 << 31) - 1
"""None can come after it, so that whoever speaks of it has made it up."""
NEVER = (1 << 63) - 1
"""As a time by the monotonic clock."""


class Address(NamedTuple):
    """Where a node listens for the quorum's requests."""

    host: str
    port: int


class ReplicaKey(NamedTuple):
    """A node of the quorum: with another disk it is another one. The directory is zero where it
    is not known, as in a static quorum."""

    id: int
    directory_id: Uuid = ZERO_UUID


class Work(Protocol):
    """Something to be made durable."""

    def flush(self, disk: Disk, /) -> None:
        """Blocks: the shell does it outside a step. Raises OSError or DiskFull."""


FlushDone = Callable[[OSError | DiskFull | None, Now], None]
Flush = Callable[[tuple[Work, ...], FlushDone], None]
"""Have work done and be called back. In a later step; or at once, while a node starts."""

Answer = Callable[[Message], None]
Then = Callable[[Message | PeerFailure, Now], None]
Probed = Callable[[bool, Now], None]
"""Whether the machine said that nobody listens."""


class Channel(Protocol):
    """Connections to other nodes of the quorum."""

    def send(self, to: Address, request: Message, then: Then, now: Now, timeout_ms: int) -> None:
        """Ask; `then` is called once, later, with the answer or why there is none. A node that
        does not know the request's version answers it with UNSUPPORTED_VERSION."""

    def probe(self, to: Address, then: Probed, now: Now) -> None:
        """Whether anybody listens there."""


class RaftListener(Protocol):
    """Who goes by the log. It is told at the end of the call into raft in which something
    happened, in order, and may call raft from there."""

    def leader_changed(self, leader_id: int, epoch: int, now: Now) -> None:
        """Another leader is known, or none is; told for every epoch."""

    def became_leader(self, epoch: int, now: Now) -> None:
        """This node leads, and all that earlier epochs committed is below the high watermark."""

    def lost_leadership(self, epoch: int, now: Now) -> None:
        """What was appended but not committed may be truncated. Told only after became_leader or
        `append` in that epoch."""

    def high_watermark_moved(self, high_watermark: Offset, now: Now) -> None:
        """All below is committed."""

    def snapshot_loaded(self, snapshot_id: SnapshotId, now: Now) -> None:
        """The log begins at the snapshot's end now: what was before is to be read from it."""

    def failed(self, reason: str) -> None:
        """The node cannot go on: its disk failed, or the quorum's promises are broken."""
