"""Who may connect: as many as leave files for the node itself.

A node that cannot open a file takes it for a broken disk, and ends. Strangers who connect must not
be able to bring that about."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import time
from typing import cast

log = logging.getLogger("tidelog.server")

BACKLOG_MAX = 1024
RESERVE = 64
"""Files for the node's own use, beside those that a burst of connections takes for a moment."""
TOLD_EVERY_SECONDS = 10.0


class Admission:
    """Invariant: whoever is let in has got a file number below `files_end`."""

    def __init__(self) -> None:
        self.files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.backlog = max(1, min(BACKLOG_MAX, self.files_max // 4))
        self.files_end = self.files_max - self.backlog - RESERVE
        self._told = -TOLD_EVERY_SECONDS

    def has_room(self) -> bool:
        """The system gives the least number that is free: so one tells how many are in use."""
        try:
            number = os.dup(2)
            os.close(number)
        except OSError:
            number = self.files_max
        if number < self.files_end:
            return True
        if time.monotonic() - self._told >= TOLD_EVERY_SECONDS:
            self._told = time.monotonic()
            log.warning(
                "connections are refused: %d of %d files are open; allow more (ulimit -n)",
                number,
                self.files_max,
            )
        return False


class Refused(asyncio.Protocol):
    """Of a client for whom there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()
