"""What a node is told and what it asks for: the two closed unions of `node.step`."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from tidelog.env import DiskFull, Work
from tidelog.wire.records_types import SingleProduce
from tidelog.wire.request import Request

ConnectionId = int
"""Never reused while a node lives. Of connections that others make to us: given by the shell,
positive; of those that we make to them: given by the node, negative."""


class Received(NamedTuple):
    """A whole request of a connection. Its records are views, which are good as long as the
    connection is not read from: for this step, and while PauseReading holds."""

    connection: ConnectionId
    request: Request | SingleProduce
    listener: str
    """Which of the node's listeners it came by: clients are told addresses of that one."""


class Connected(NamedTuple):
    """A Connect succeeded."""

    connection: ConnectionId


class ConnectFailed(NamedTuple):
    """A Connect did not."""

    connection: ConnectionId
    was_refused: bool
    """The machine answered that nobody listens there: that process is gone. Otherwise nobody
    knows."""


class Answered(NamedTuple):
    """A whole answer of a peer that we connected to. Its bytes are good for this step."""

    connection: ConnectionId
    frame: memoryview


class Disconnected(NamedTuple):
    """The peer is gone; what it still waits for is forgotten."""

    connection: ConnectionId


class Ticked(NamedTuple):
    """The time that `node.next_deadline_ms` named has come."""


class TurnEnded(NamedTuple):
    """What had arrived together is handled: `node.waits_for_more` has waited for this."""


class Flushed(NamedTuple):
    """A Flush is done; or it failed, and nobody knows how much of it."""

    token: int
    error: OSError | DiskFull | None = None


class FileFailed(NamedTuple):
    """A RemoveFile or RemoveTree failed, and not for want of room; or what was to be sent cannot
    be read. Without a path nobody knows which log directory it was."""

    path: str | None
    error: OSError


Event = (
    Received
    | Disconnected
    | Ticked
    | TurnEnded
    | Flushed
    | FileFailed
    | Connected
    | ConnectFailed
    | Answered
)


class Connect(NamedTuple):
    """Open a connection to a peer; Connected or ConnectFailed follows, then Answered and
    at last Disconnected."""

    connection: ConnectionId
    host: str
    port: int


class Send(NamedTuple):
    """One frame to a peer: buffers and file slices, in order."""

    connection: ConnectionId
    parts: list[Any]


class CloseConnection(NamedTuple):
    """Hang up, for a reason that an operator wants to read."""

    connection: ConnectionId
    reason: str


class PauseReading(NamedTuple):
    """So many answers wait for this peer that it may not ask for more."""

    connection: ConnectionId


class ResumeReading(NamedTuple):
    """It may again; once for each PauseReading, unless it is gone."""

    connection: ConnectionId


class Lane(Enum):
    """What does not wait for what, on its way to the disk: after an election hundreds of logs are
    flushed, and as many may have been cut."""

    SOME_DAY = "disk"
    """Nobody waits for it, or only who asked for it (flush.messages)."""
    AWAITED = "disk-urgent"
    """A partition does nothing else before it is done."""
    QUORUM = "disk-quorum"
    """All of the cluster waits."""

    @property
    def threads(self) -> int:
        """How many work at a time."""
        return 2 if self is Lane.SOME_DAY else 1


class Flush(NamedTuple):
    """Make what logs and files hold durable; answer with Flushed. Never done inside a step."""

    token: int
    work: tuple[Work, ...]
    lane: Lane = Lane.SOME_DAY


class RemoveFile(NamedTuple):
    """Delete a file that is in nobody's way: a large one takes longer than a step."""

    path: str


class RemoveTree(NamedTuple):
    """Delete a directory and what is in it: it may take longer than a step."""

    path: str


class StopProcess(NamedTuple):
    """The node cannot go on: the shell ends the process, uncleanly."""

    reason: str


Effect = (
    Send
    | CloseConnection
    | PauseReading
    | ResumeReading
    | Connect
    | Flush
    | RemoveFile
    | RemoveTree
    | StopProcess
)
