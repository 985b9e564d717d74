"""A node whose log ends before the leader's begins fetches a snapshot, piece by piece, and starts
its log anew behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.env import DiskFull, Now
from tidelog.errors import PeerFailure
from tidelog.metadata.snapshot import SnapshotId
from tidelog.raft.messages import fetch_snapshot_request
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Leader, Role, backoff
from tidelog.raft.snapshots import DamagedSnapshot, Part
from tidelog.raft.types import NEVER
from tidelog.raft.validation import heed
from tidelog.wire.declare import Message

log = logging.getLogger("tidelog.raft")

DAMAGED_RETRY_MS = 5000
"""By then the leader may be another, or have another snapshot."""
FAILURES_MAX = 5
"""In a row: then it is asked anew which snapshot to fetch."""


class SnapshotDownload:
    """A part of raft. While it is busy nothing is fetched from the log."""

    def __init__(self, quorum: Quorum, succeeded: Callable[[Now], None]) -> None:
        self._quorum = quorum
        self._succeeded = succeeded
        self._part: Part | None = None
        self._role: Role | None = None
        """The follower that it is for: another leader may have another snapshot."""
        self._is_asked = self._is_finishing = False
        self._retry_ms = 0
        self._failures = 0
        self._damaged: tuple[SnapshotId | None, int] = None, 0
        """The one that was last, and until when it is not fetched again."""

    @property
    def is_busy(self) -> bool:
        return self._part is not None or self._is_finishing

    @property
    def next_deadline_ms(self) -> int:
        is_waiting = self._part is not None and not self._is_asked and not self._is_finishing
        return self._retry_ms if is_waiting and self._quorum.gate.is_open else NEVER

    def begin(self, snapshot_id: SnapshotId, now: Now) -> bool:
        """The leader wants it loaded; whether that is possible now."""
        assert not self.is_busy
        if snapshot_id in self._quorum.snapshots:
            log.error("the leader wants snapshot %s loaded, which is here", snapshot_id)
            return False
        damaged_id, until_ms = self._damaged
        if snapshot_id == damaged_id and now.monotonic_ms < until_ms:
            return False
        try:
            self._part = self._quorum.snapshots.begin(snapshot_id)
        except DiskFull as error:
            log.error("there is no room for a snapshot: %s", error)
            return False
        self._role = self._quorum.role
        self._is_asked, self._retry_ms, self._failures = False, now.monotonic_ms, 0
        return True

    def work(self, now: Now) -> bool:
        """Ask for the next piece."""
        quorum, part = self._quorum, self._part
        if part is None or self._is_finishing:
            return False
        if self._role is not quorum.role:
            self._abandon()
            return True
        if self._is_asked or now.monotonic_ms < self._retry_ms or not quorum.gate.is_open:
            return False
        assert quorum.leader_address is not None
        self._is_asked = True
        request = fetch_snapshot_request(
            quorum.cluster_id,
            quorum.key,
            quorum.epoch,
            part.id,
            part.size,
            quorum.config.fetch_snapshot_bytes_max,
        )
        then = partial(self._answered, part)
        timeout_ms = quorum.config.request_timeout_ms
        quorum.channel.send(quorum.leader_address, request, then, now, timeout_ms)
        return True

    def _answered(self, part: Part, response: Message | PeerFailure, now: Now) -> None:
        quorum = self._quorum
        if part is not self._part:
            quorum.settle(now)
            return
        self._is_asked = False
        is_failure = isinstance(response, PeerFailure)
        piece = None if is_failure else heed(quorum, response, now)
        if self._role is not quorum.role:
            pass  # another leader: `work` gives up
        elif piece is not None and self._take(part, piece, now):
            self._failures = 0
        elif is_failure and self._failures < FAILURES_MAX:
            self._failures += 1
            self._retry_ms = now.monotonic_ms + backoff(
                quorum.config.retry_backoff_ms, self._failures
            )
        else:
            # The snapshot is gone: the next fetch says which one there is.
            self._abandon()
        quorum.settle(now)

    def _take(self, part: Part, piece: Any, now: Now) -> bool:
        if (piece.snapshot_id.end_offset, piece.snapshot_id.epoch) != part.id:
            return False
        if piece.position != part.size or part.size + len(piece.unaligned_records) > piece.size:
            return False
        if not len(piece.unaligned_records) and part.size < piece.size:
            return False
        try:
            part.append(piece.unaligned_records)
        except DiskFull as error:
            log.error("there is no room for a snapshot: %s", error)
            return False
        self._succeeded(now)
        if part.size == piece.size:
            self._finish(part)
        return True

    def _finish(self, part: Part) -> None:
        self._is_finishing = True

        def done(error: OSError | DiskFull | None, now: Now) -> None:
            self._is_finishing = False
            self._part = None
            if error is None:
                self._load(part.id, now)
            elif isinstance(error, DiskFull):
                part.abandon()
            elif isinstance(error, DamagedSnapshot):
                log.error("snapshot %d-%d of the leader is of no use: %s", *part.id, error.strerror)
                part.abandon()
                self._damaged = part.id, now.monotonic_ms + DAMAGED_RETRY_MS
            else:
                self._is_finishing = True
                self._quorum.listener.failed(f"a snapshot cannot be written: {error}")
                return
            self._quorum.settle(now)

        self._quorum.flush((part.finish(is_fetched=True),), done)

    def _load(self, snapshot_id: SnapshotId, now: Now) -> None:
        """The log begins anew where the snapshot ends."""
        quorum = self._quorum
        quorum.snapshots.add(snapshot_id)
        end_offset = snapshot_id.end_offset
        if isinstance(quorum.role, Leader) or end_offset < quorum.high_watermark:
            return  # what the log has counts for more
        quorum.log.truncate_fully_and_start_at(end_offset)
        quorum.history.truncate_to(0)
        for record in quorum.snapshots.quorum_records(snapshot_id):
            quorum.history.note(end_offset - 1, record)
        quorum.high_watermark = end_offset
        quorum.tell(lambda now: quorum.listener.snapshot_loaded(snapshot_id, now))

    def _abandon(self) -> None:
        assert self._part is not None
        self._part.abandon()
        self._part = None
