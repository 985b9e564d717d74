"""What a handler may give for an answer."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.runtime.purgatory import Delayed
from tidelog.wire.declare import Message


class Disconnect(NamedTuple):
    """What a client is told that cannot be told anything."""

    reason: str


Answer = Message | Delayed | Disconnect | None
"""None where the client wants none."""
