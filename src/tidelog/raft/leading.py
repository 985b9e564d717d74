"""A leader's epoch: it begins with a record that says so, commits what a majority of voters has
on disk, and ends when it hears of no majority any more.

The leader's own log counts as far as it is flushed. Apache Kafka counts all that the leader has
appended; after a power failure of the leader a committed record can then be on a minority.
"""

from __future__ import annotations

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.results import Appended
from tidelog.metadata.batches import control_batch
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Election, Leader
from tidelog.raft.types import NEVER, ReplicaKey
from tidelog.raft.voters import BEFORE_THE_LOG, voter_of
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
)


class Leading:
    """A part of raft."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    @property
    def next_deadline_ms(self) -> int:
        role = self._quorum.role
        if not isinstance(role, Leader):
            return NEVER
        change_ms = NEVER if role.change is None else role.change.deadline_ms
        return min(change_ms, role.check_deadline_ms if self._quorum.others else NEVER)

    def work(self, now: Now) -> bool:
        """Begin, commit, end."""
        quorum, role = self._quorum, self._quorum.role
        if isinstance(role, Election) and role.is_won and quorum.gate.is_open:
            self._begin(role, now)
            return True
        if not isinstance(role, Leader):
            return False
        if now.monotonic_ms >= role.check_deadline_ms and quorum.others:
            quorum.resign(now)
            return True
        return self._commit(role) or self._end_change(role, now)

    def _begin(self, election: Election, now: Now) -> None:
        quorum = self._quorum
        check_ms = now.monotonic_ms + quorum.config.check_quorum_timeout_ms
        role = Leader(election.granted, quorum.log.log_end_offset, check_ms)
        quorum.enter(role, quorum.state, quorum.leader_address, now)
        message = LeaderChangeMessage(
            version=0,
            leader_id=quorum.key.id,
            voters=tuple(LeaderChangeVoter(voter_id=one) for one in quorum.voters.ids),
            granting_voters=tuple(LeaderChangeVoter(voter_id=one) for one in sorted(role.granted)),
        )
        if isinstance(self.append_control([message, *self._own_voters()], now), ErrorCode):
            quorum.resign(now)  # the disk is full

    def _own_voters(self) -> list[Message]:
        """What the first leader copies from the format into the log; and how a voter that has
        moved describes itself."""
        quorum, latest = self._quorum, self._quorum.history.latest
        if latest.kraft_version == 0:
            return []
        voters = latest.voters
        if quorum.is_voter:
            voters = voters.with_voter(voter_of(quorum.key, quorum.config.endpoints))
        if latest.offset == BEFORE_THE_LOG:
            version = KRaftVersionRecord(version=0, kraft_version=latest.kraft_version)
            return [version, voters.to_record()]
        return [voters.to_record()] if voters != latest.voters else []

    # Appending.

    def append(
        self, batch: bytearray, now: Now, *, is_awaited: bool = True
    ) -> Appended | ErrorCode:
        """One batch, which gets the next offsets and this epoch."""
        quorum, role = self._quorum, self._quorum.role
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        appended = quorum.log.append_built(batch, quorum.epoch, now)
        if is_awaited and isinstance(appended, Appended):
            role.awaited_end_offset = quorum.log.log_end_offset
        return appended

    def append_control(self, records: list[Message], now: Now) -> Appended | ErrorCode:
        """The quorum's own records; voters among them count at once."""
        quorum, was_alone = self._quorum, not self._quorum.others
        batch = control_batch(
            records,
            base_offset=quorum.log.log_end_offset,
            leader_epoch=quorum.epoch,
            timestamp_ms=now.wall_ms,
        )
        appended = self.append(batch, now)
        if isinstance(appended, Appended):
            for offset, record in enumerate(records, appended.base_offset):
                quorum.history.note(offset, record)
            if was_alone and isinstance(quorum.role, Leader):
                self._heard_majority(quorum.role, now)  # there was nobody else to hear from
        return appended

    # Replicas.

    def fetched(self, key: ReplicaKey, offset: Offset | None, now: Now) -> None:
        """A replica asks for what comes at an offset; or for a piece of a snapshot."""
        quorum, role = self._quorum, self._quorum.role
        assert isinstance(role, Leader)
        voters = quorum.voters
        replica = role.replicas.track(key, voters, now)
        if replica is not None and offset is not None:
            replica.fetched(offset, quorum.log.log_end_offset, now)
        if key.id == quorum.key.id or not voters.is_voter(key):
            return
        if role.begin.get(key.id, NEVER) != NEVER:
            role.begin[key.id] = now.monotonic_ms + quorum.config.begin_quorum_interval_ms
        role.fetched[key.id] = None
        heard = [*role.fetched, quorum.key.id] if quorum.is_voter else role.fetched
        if voters.is_majority(heard):
            self._heard_majority(role, now)

    def _heard_majority(self, role: Leader, now: Now) -> None:
        role.fetched.clear()
        role.check_deadline_ms = now.monotonic_ms + self._quorum.config.check_quorum_timeout_ms

    def _commit(self, role: Leader) -> bool:
        """What a majority has on disk; only with a record of this epoch does it say anything of
        earlier ones."""
        quorum = self._quorum
        known = quorum.history.latest.offset, quorum.log.recovery_point, role.replicas.fetches
        if known == role.known_at_commit:
            return False
        role.known_at_commit = known
        own_id = quorum.key.id if quorum.is_voter else -1
        end = role.replicas.majority_end_offset(quorum.voters, own_id, quorum.log.recovery_point)
        if end is None or end <= max(role.start_offset, role.high_watermark or 0):
            return False
        assert end <= quorum.log.log_end_offset
        role.high_watermark = end
        quorum.raise_high_watermark(end)
        if not role.is_told:
            role.is_told = True
            epoch = quorum.epoch
            quorum.tell(lambda now: quorum.listener.became_leader(epoch, now))
        return True

    def _end_change(self, role: Leader, now: Now) -> bool:
        """A change of voters is committed, or takes too long."""
        quorum, change = self._quorum, role.change
        if change is not None:
            is_committed = (role.high_watermark or 0) >= (change.end_offset or NEVER)
            if is_committed or now.monotonic_ms >= change.deadline_ms:
                role.change = None
                error = ErrorCode.NONE if is_committed else ErrorCode.REQUEST_TIMED_OUT
                change.finish(error, "" if is_committed else "not committed in time")
                return True
        removed_at = quorum.history.latest.offset
        if not quorum.is_voter and removed_at < (role.high_watermark or 0):
            quorum.resign(now)
            return True
        return False
