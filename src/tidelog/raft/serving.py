"""What the leader gives to who fetches: records, the place where logs diverge, or a snapshot.

A fetch that there is nothing new for waits, until something is appended or the high watermark
moves: it is by the next answer that a follower learns of a commit (KIP-1166).

What nobody awaits, as a NoOp, is told to one after the other: twice a second all nodes would write,
flush and replay it in the same milliseconds, and clients' records that come then would wait.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.snapshot import SnapshotId
from tidelog.raft.elections import Elections
from tidelog.raft.leading import Leading
from tidelog.raft.messages import Fetched, fetch_response, fetch_snapshot_response
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Leader
from tidelog.raft.snapshots import last_epoch
from tidelog.raft.types import NEVER, Answer, ReplicaKey
from tidelog.raft.validation import (
    cluster_error,
    leader_only_error,
    only_partition,
    opened,
)
from tidelog.types import Offset
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

WAITING_MAX = 10_000
"""Long polls; beyond that a fetch is answered at once."""
WAIT_MS_MAX = 5000
"""Of a long poll, whatever is asked for: who is gone is forgotten by then."""
QUIET_MS = 5
"""Between those who are told of what nobody awaits."""
QUIET_TURNS = 4
"""After so many of these pauses all are told, however many they are."""


class News(Enum):
    """What there is for who fetches."""

    NONE = "nothing"
    QUIET = "what nobody awaits"
    AWAITED = "what is told at once"


class Waiting(NamedTuple):
    """A fetch that there was nothing for yet."""

    deadline_ms: int
    asked: FetchPartition
    bytes_max: int
    high_watermark: Offset | None
    """As far as who asks knows it, or is told by an answer to come."""
    answer: Answer


class Serving:
    """A part of raft."""

    def __init__(self, quorum: Quorum, leading: Leading, elections: Elections) -> None:
        self._quorum = quorum
        self._leading = leading
        self._elections = elections
        self._waiting: list[Waiting] = []
        self._seen: tuple[object, ...] = ()
        """Role, log end and high watermark when the long polls were looked at."""
        self._quiet_ms = NEVER
        """When the next are told of what nobody awaits, if there is such."""
        self._quiet_share = 0
        """So many at a time, until all have heard of it."""

    @property
    def next_deadline_ms(self) -> int:
        deadline_ms = min((waiting.deadline_ms for waiting in self._waiting), default=NEVER)
        return min(deadline_ms, self._quiet_ms)

    def work(self, now: Now) -> bool:
        """Answer long polls that something changed for, or whose time is up."""
        if not self._waiting:
            self._quiet_ms = NEVER
            return False
        quorum, role = self._quorum, self._quorum.role
        mark = role.high_watermark if isinstance(role, Leader) else None
        seen = role, quorum.log.log_end_offset, mark
        if seen == self._seen and now.monotonic_ms < self.next_deadline_ms:
            return False
        self._seen = seen
        waiting, self._waiting = self._waiting, []
        quiet_left = self._quiet_turn(len(waiting), now)
        for one in waiting:
            fetched = self._decide(one.asked, one.bytes_max)
            news = self._news(fetched, one.asked.fetch_offset, one.high_watermark)
            is_told = news is News.AWAITED or one.deadline_ms <= now.monotonic_ms
            if news is News.QUIET and not is_told:
                is_told = quiet_left > 0
                quiet_left -= 1
            if is_told:
                quorum.reply(one.answer, fetch_response(fetched, quorum.leader_view))
            else:
                self._waiting.append(one)
                self._expect_quiet(news, now)
        if self._quiet_ms == NEVER:
            self._quiet_share = 0
        return len(self._waiting) < len(waiting)

    def _quiet_turn(self, waiting: int, now: Now) -> int:
        """How many may be told of what nobody awaits."""
        if now.monotonic_ms < self._quiet_ms:
            return 0
        self._quiet_ms = NEVER
        # As many as at the first turn: those who were told may be long in coming back.
        self._quiet_share = max(self._quiet_share, -(-waiting // QUIET_TURNS))
        return self._quiet_share

    def _expect_quiet(self, news: News, now: Now) -> None:
        if news is News.QUIET and self._quiet_ms == NEVER:
            self._quiet_ms = now.monotonic_ms + QUIET_MS

    # Fetch.

    def fetch(self, request: FetchRequest, now: Now, answer: Answer) -> None:
        """Handles Fetch of the metadata log."""
        quorum, role = self._quorum, self._quorum.role
        error, asked = opened(quorum, request)
        if error is not ErrorCode.NONE:
            quorum.reply(answer, FetchResponse(error_code=error, responses=()))
            quorum.settle(now)
            return
        fetched = self._decide(asked, request.max_bytes)
        replica_id = max(request.replica_id, request.replica_state.replica_id)
        is_valid = fetched.error is ErrorCode.NONE and fetched.diverging is None
        if is_valid and replica_id >= 0 and isinstance(role, Leader):
            key = ReplicaKey(replica_id, asked.replica_directory_id)
            offset = asked.fetch_offset if fetched.snapshot_id is None else None
            self._leading.fetched(key, offset, now)
        mark = role.high_watermark if isinstance(role, Leader) else None
        # Who does not say what it knows, as Kafka before 4.1, is told of what comes from now on.
        known = None if mark is None else min(mark, asked.high_watermark)
        may_wait = request.max_wait_ms > 0 and len(self._waiting) < WAITING_MAX
        news = self._news(fetched, asked.fetch_offset, known)
        if not may_wait or news is News.AWAITED:
            quorum.reply(answer, fetch_response(fetched, quorum.leader_view))
        else:
            deadline_ms = now.monotonic_ms + min(request.max_wait_ms, WAIT_MS_MAX)
            self._waiting.append(Waiting(deadline_ms, asked, request.max_bytes, known, answer))
            self._expect_quiet(news, now)
        self._elections.heard(replica_id, now)
        quorum.settle(now)

    def _decide(self, asked: FetchPartition, bytes_max: int) -> Fetched:
        quorum, role = self._quorum, self._quorum.role
        log_start = quorum.log.log_start_offset
        offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
        if min(offset, epoch, asked.current_leader_epoch) < 0:
            return Fetched(ErrorCode.INVALID_REQUEST, log_start_offset=log_start)
        error = leader_only_error(quorum, asked.current_leader_epoch)
        if error is ErrorCode.NONE and epoch > quorum.epoch:
            error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            return Fetched(error, log_start_offset=log_start)
        assert isinstance(role, Leader)
        mark = -1 if role.high_watermark is None else role.high_watermark
        good = Fetched(high_watermark=mark, log_start_offset=log_start)
        snapshot_id = self._snapshot_for(offset, epoch)
        if snapshot_id is not None:
            return good._replace(snapshot_id=snapshot_id)
        diverging = self._diverging(offset, epoch)
        if diverging is not None:
            return good._replace(diverging=diverging)
        found = quorum.log.read(offset, quorum.log.log_end_offset, max(bytes_max, 0))
        return good if found is None else good._replace(records=found)

    def _news(self, fetched: Fetched, offset: Offset, known: Offset | None) -> News:
        """What there is for who has the log up to an offset, and knows a high watermark."""
        role = self._quorum.role
        if (
            fetched.error is not ErrorCode.NONE
            or fetched.diverging is not None
            or fetched.snapshot_id is not None
            or not isinstance(role, Leader)
        ):
            return News.AWAITED
        mark = role.high_watermark
        starts = [offset] if fetched.records else []
        if mark is not None and (known is None or known < mark):
            starts.append(-1 if known is None else known)
        if not starts:
            return News.NONE
        return News.AWAITED if min(starts) < role.awaited_end_offset else News.QUIET

    def _snapshot_for(self, offset: Offset, epoch: int) -> SnapshotId | None:
        """The snapshot that a replica needs before it can go on with the log."""
        earliest, latest = self._quorum.snapshots.earliest, self._quorum.snapshots.latest
        if earliest is None or latest is None:
            return None
        start = self._quorum.log.log_start_offset
        is_below = offset < start or epoch < earliest.epoch
        is_foreign = offset == start == earliest.end_offset and epoch != earliest.epoch
        return latest if offset == 0 or is_below or is_foreign else None

    def _diverging(self, offset: Offset, epoch: int) -> tuple[int, Offset] | None:
        """The end of the greatest epoch that both may have, if the replica is beyond that."""
        if offset == 0 and self._quorum.log.log_start_offset == 0:
            return None
        end = end_offset_for(self._quorum, epoch)
        return end if end[0] != epoch or end[1] < offset else None

    # FetchSnapshot.

    def fetch_snapshot(self, request: FetchSnapshotRequest, now: Now, answer: Answer) -> None:
        """Handles FetchSnapshot: a piece, cut at any byte."""
        quorum = self._quorum
        error = cluster_error(request.cluster_id, quorum.cluster_id)
        asked = only_partition(request)
        if error is not ErrorCode.NONE:
            quorum.reply(answer, FetchSnapshotResponse(error_code=error, topics=()))
        elif asked is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            quorum.reply(answer, FetchSnapshotResponse(error_code=error, topics=()))
        else:
            self._give_piece(request, asked, now, answer)
        quorum.settle(now)

    def _give_piece(
        self, request: FetchSnapshotRequest, asked: Any, now: Now, answer: Answer
    ) -> None:
        quorum = self._quorum
        snapshot_id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        error = leader_only_error(quorum, asked.current_leader_epoch)
        if error is ErrorCode.NONE and snapshot_id not in quorum.snapshots:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        size = quorum.snapshots.file(snapshot_id).size if error is ErrorCode.NONE else 0
        if error is ErrorCode.NONE and not 0 <= asked.position < size:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        if error is not ErrorCode.NONE:
            response = fetch_snapshot_response(error, quorum.leader_view, snapshot_id)
            quorum.reply(answer, response)
            return
        if request.replica_id >= 0:
            key = ReplicaKey(request.replica_id, asked.replica_directory_id)
            self._leading.fetched(key, None, now)
        bytes_max = max(request.max_bytes, 1)
        response = fetch_snapshot_response(
            ErrorCode.NONE,
            quorum.leader_view,
            snapshot_id,
            size=size,
            position=asked.position,
            records=quorum.snapshots.read(snapshot_id, asked.position, bytes_max),
        )
        quorum.reply(answer, response)


def end_offset_for(quorum: Quorum, epoch: int) -> tuple[int, Offset]:
    """The greatest known epoch not above, and where it ends; above all, the end of the log."""
    known_epoch, end = quorum.log.end_offset_for_epoch(epoch)
    if end < 0:
        return last_epoch(quorum.log, quorum.snapshots), quorum.log.log_end_offset
    earliest = quorum.snapshots.earliest
    if earliest is not None and end == earliest.end_offset and known_epoch == epoch:
        return earliest.epoch, end
    return known_epoch, end
