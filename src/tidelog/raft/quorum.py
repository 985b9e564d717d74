"""A node's place in the quorum: epoch, leader, vote and role, and what all parts of raft share.

Parts are level-triggered: a call into raft changes state, then `settle` lets every part do what
the state and the time ask for, until nothing is left to do. So no part has to remember to wake
another, and nothing is sent while quorum-state is not durable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Protocol

from tidelog.env import DiskFull, Now, Rng
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.raft.config import RaftConfig
from tidelog.raft.election_state import (
    QUORUM_STATE,
    ElectionState,
    format_quorum_state,
    parse_quorum_state,
)
from tidelog.raft.gate import DISK_FULL_RETRY_MS, Action, Gate
from tidelog.raft.history import load_history
from tidelog.raft.messages import LeaderView
from tidelog.raft.roles import Election, Follower, Leader, Resigned, Role, Unattached
from tidelog.raft.settling import Settling
from tidelog.raft.snapshots import Snapshots, last_epoch, reconcile
from tidelog.raft.types import (
    LAST_EPOCH,
    NEVER,
    NOBODY,
    Address,
    Answer,
    Channel,
    Flush,
    RaftListener,
    ReplicaKey,
)
from tidelog.raft.voters import VoterSet, address_of
from tidelog.types import Offset
from tidelog.wire.declare import Message

log = logging.getLogger("tidelog.raft")

STAGGER_MS = 50
"""About what an election takes."""


class Part(Protocol):
    """One of those that work on the quorum's state."""

    @property
    def next_deadline_ms(self) -> int:
        """When it has something to do if nothing else happens."""

    def work(self, now: Now, /) -> bool:
        """Do what is to be done now; whether that was anything."""


class Quorum:
    """Invariants: epoch and high watermark never fall; at most one leader and one vote an epoch.
    leader_id is this node's while it leads, and after it resigned."""

    def __init__(
        self,
        config: RaftConfig,
        key: ReplicaKey,
        cluster_id: str,
        metadata: Log,
        rng: Rng,
        channel: Channel,
        flush: Flush,
        listener: RaftListener,
    ) -> None:
        self.config = config
        self.key = key
        self.cluster_id = cluster_id
        self.log = metadata
        self.rng = rng
        self.channel = channel
        self.flush = flush
        self.listener = listener
        self.snapshots = Snapshots(metadata.disk, metadata.path)
        reconcile(metadata, self.snapshots)
        self.history = load_history(config, metadata, self.snapshots)
        path = f"{metadata.path}/{QUORUM_STATE}"
        self.gate = Gate(path, flush, listener.failed, self.settle)
        self.state = parse_quorum_state(path, metadata.disk.read_file(path))
        self.leader_address: Address | None = None
        self.role: Role = Unattached(NEVER)
        latest = self.snapshots.latest
        self.high_watermark: Offset = 0 if latest is None else latest.end_offset
        self.parts: list[Part] = []
        """In the order in which they work; telling the listener comes last."""
        self._settling = Settling()
        self.next_deadline_ms = NEVER
        self._is_flushing = False
        self._cuts = self._flushed_cuts = 0
        """How often the log was truncated, and how much of that the disk knows."""
        self._flush_retry_ms = NEVER
        self.holds_flush = False
        """More is about to be appended, and one flush is enough for all of it."""

    # What is known.

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        return self.state.leader_id

    @property
    def voters(self) -> VoterSet:
        return self.history.latest.voters

    @property
    def kraft_version(self) -> int:
        return self.history.latest.kraft_version

    @property
    def is_voter(self) -> bool:
        return self.config.is_controller and self.voters.is_voter(self.key)

    @property
    def others(self) -> tuple[int, ...]:
        """The voters but this node."""
        return tuple(voter_id for voter_id in self.voters.ids if voter_id != self.key.id)

    @property
    def last(self) -> tuple[int, Offset]:
        """The epoch of the last record, and the log end offset."""
        return last_epoch(self.log, self.snapshots), self.log.log_end_offset

    @property
    def has_cut(self) -> bool:
        """The log was truncated, and the disk need not know that yet."""
        return self._flushed_cuts < self._cuts

    @property
    def is_log_durable(self) -> bool:
        return not self.has_cut and self.log.recovery_point >= self.log.log_end_offset

    @property
    def leader_view(self) -> LeaderView:
        """As answers tell it."""
        return LeaderView(self.leader_id, self.epoch, self.leader_address)

    def address_of(self, voter_id: int) -> Address | None:
        if voter_id == self.key.id:
            return address_of(self.config.endpoints, self.config.listener_name)
        return self.voters.address(voter_id, self.config.listener_name)

    # Working.

    def add(self, *parts: Part) -> None:
        self.parts += parts
        # Last, so that one flush covers all that the others append.
        works = [self.gate.work, *(part.work for part in self.parts), self._flush_log]
        self._settling.works = works

    def settle(self, now: Now) -> None:
        """Let every part do its work; called at the end of every call from outside."""
        if not self._settling.settle(now):
            return
        self.next_deadline_ms = min(
            self.gate.retry_ms,
            self._flush_retry_ms,
            *[part.next_deadline_ms for part in self.parts],
        )

    def tell(self, news: Action) -> None:
        """Have the listener told when all is settled."""
        self._settling.tell(news)

    def reply(self, answer: Answer, message: Message) -> None:
        """Once what it says is durable."""
        if self.gate.is_open and not self.gate.is_waited_for:
            answer(message)
        else:
            self.gate.when_open(lambda now: answer(message))

    def _flush_log(self, now: Now) -> bool:
        """A voter, or who may become one, has on disk what it says it has."""
        if self._is_flushing or self.holds_flush or now.monotonic_ms < self._flush_retry_ms < NEVER:
            return False
        wanted = not self.is_log_durable if self.config.is_controller else self.log.must_flush(now)
        if not wanted and not self.has_cut:
            return False
        self._flush_retry_ms = NEVER
        try:
            work = self.log.unflushed(now)
        except DiskFull:
            self._flush_retry_ms = now.monotonic_ms + DISK_FULL_RETRY_MS
            return False
        if work is None:  # the disk knows all
            self._flushed_cuts, had_cut = self._cuts, self.has_cut
            return had_cut
        self._is_flushing = True
        self.flush((work,), partial(self._flushed, work.end_offset, self._cuts))
        return True

    def truncate_to(self, end_offset: Offset) -> None:
        """What is gone could come back behind what is appended in its place: that waits until
        the disk knows."""
        self.log.truncate_to(end_offset)
        self.history.truncate_to(end_offset)
        self._cuts += 1

    def _flushed(
        self, end_offset: Offset, cuts: int, error: OSError | DiskFull | None, now: Now
    ) -> None:
        self._is_flushing = False
        if isinstance(error, DiskFull):
            self.log.flush_failed()
            self._flush_retry_ms = now.monotonic_ms + DISK_FULL_RETRY_MS
        elif error is not None:
            # It may have lost anything: believing in what the log holds is not an option.
            self._is_flushing = True
            self.listener.failed(f"the metadata log cannot be flushed: {error}")
            return
        else:
            self.log.flushed(end_offset)
            self._flushed_cuts = cuts
        self.settle(now)

    # Changing.

    def election_deadline_ms(self, now: Now) -> int:
        """A timeout drawn for this election alone."""
        timeout_ms = self.config.election_timeout_ms
        return now.monotonic_ms + timeout_ms + self.rng.randrange(max(timeout_ms, 1))

    def fetch_deadline_ms(self, leader_id: int, now: Now) -> int:
        """By when the leader must have answered. Followers hear of a commit at the same time, so
        that theirs would run out together, and each would vote for itself."""
        rivals = [voter_id for voter_id in self.others if voter_id != leader_id]
        return now.monotonic_ms + self.config.fetch_timeout_ms + self.stagger_ms(rivals)

    def stagger_ms(self, rivals: Iterable[int]) -> int:
        """How much this voter leaves others with lower ids to call an election before it does."""
        return STAGGER_MS * sum(1 for voter_id in rivals if voter_id < self.key.id)

    def unattach(self, epoch: int, now: Now) -> None:
        """An epoch whose leader is not known."""
        assert epoch > self.epoch
        self.enter(Unattached(self._deadline_left_ms(now)), ElectionState(epoch), None, now)

    def _deadline_left_ms(self, now: Now) -> int:
        """Others' elections do not put off one's own."""
        if isinstance(self.role, Leader) or self.role.deadline_ms == NEVER:
            return self.election_deadline_ms(now)
        return self.role.deadline_ms

    def give_vote(self, candidate: ReplicaKey, now: Now) -> None:
        """In this epoch, and in no other place."""
        assert self.state.voted is None
        role = Unattached(self.election_deadline_ms(now), has_voted=True)
        self.enter(role, self.state._replace(voted=candidate), None, now)

    def call_election(self, now: Now) -> None:
        """Become prospective: ask whether a majority would vote for this node."""
        self._hold_election(self.state, now, is_pre_vote=True)

    def stand_as_candidate(self, now: Now) -> None:
        """In the next epoch, with its own vote."""
        state = ElectionState(self.epoch + 1, voted=self.key)
        self._hold_election(state, now, is_pre_vote=False)

    def elect_self(self, now: Now) -> None:
        """A quorum of one: nobody else can vote, so that vote and leader are written at once."""
        assert not self.others
        state = ElectionState(self.epoch + 1, self.key.id, self.key)
        self._hold_election(state, now, is_pre_vote=False)
        if isinstance(self.role, Election):
            self.role.is_won = True
            self.leader_address = self.address_of(self.key.id)

    def wait_for_leader(self, now: Now) -> None:
        """A start without a leader's address."""
        self.enter(Unattached(self.election_deadline_ms(now)), self.state, None, now)

    def stand_again(self, now: Now) -> None:
        """A start after a crash: the vote in this epoch is its own."""
        self._hold_election(self.state, now, is_pre_vote=False)

    def _hold_election(self, state: ElectionState, now: Now, *, is_pre_vote: bool) -> None:
        assert self.is_voter
        role = Election(
            self.others,
            is_pre_vote=is_pre_vote,
            deadline_ms=self.election_deadline_ms(now),
            now_ms=now.monotonic_ms,
        )
        role.granted.append(self.key.id)
        self.enter(role, state, self.leader_address if is_pre_vote else None, now)

    def give_up_election(self, now: Now) -> None:
        """The pre-vote was lost: back to what was before it."""
        if self.leader_id not in (NOBODY, self.key.id) and self.leader_address is not None:
            self.follow(self.epoch, self.leader_id, self.leader_address, now)
        else:
            role = Unattached(self.election_deadline_ms(now))
            self.enter(role, self.state, self.leader_address, now)

    def follow(self, epoch: int, leader_id: int, address: Address, now: Now) -> None:
        assert epoch > self.epoch or self.leader_id in (NOBODY, leader_id)
        voted = self.state.voted if epoch == self.epoch else None
        update_ms = now.monotonic_ms + self.config.fetch_timeout_ms
        role = Follower(self.fetch_deadline_ms(leader_id, now), update_ms)
        self.enter(role, ElectionState(epoch, leader_id, voted), address, now)

    def resign(self, now: Now) -> None:
        """Stop leading, and say who should do it now."""
        assert isinstance(self.role, Leader)
        candidates = self.role.replicas.best_first(self.voters, self.others)
        role = Resigned(self.others, candidates, self.election_deadline_ms(now), now.monotonic_ms)
        self.enter(role, self.state, self.leader_address, now)

    def enter(self, role: Role, state: ElectionState, address: Address | None, now: Now) -> None:
        """The only place where role and state change."""
        before, old = self.role, self.state
        if state.epoch > LAST_EPOCH:
            self.listener.failed(f"no epoch of the quorum comes after {LAST_EPOCH}")
            role, state = Unattached(NEVER), old
        assert state.epoch >= old.epoch
        self.role, self.state, self.leader_address = role, state, address
        if state != old:
            self.gate.store(format_quorum_state(state, self.kraft_version, self.voters.ids))
        if isinstance(before, Leader) and role is not before:
            self._end_leadership(before, old.epoch)
        if (state.leader_id, state.epoch) != (old.leader_id, old.epoch):
            log.info("node %d: epoch %d, leader %d", self.key.id, state.epoch, state.leader_id)
            leader_id, epoch = state.leader_id, state.epoch
            self.tell(lambda now: self.listener.leader_changed(leader_id, epoch, now))

    def _end_leadership(self, leader: Leader, epoch: int) -> None:
        if leader.change is not None:
            leader.change.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader resigned")
        self.tell(lambda now: self.listener.lost_leadership(epoch, now))

    # Learning from others.

    def adopt(self, leader_id: int, epoch: int, address: Address | None, now: Now) -> None:
        """Somebody says who leads an epoch, if anybody does."""
        if epoch < self.epoch:
            return
        if leader_id < 0 or leader_id == self.key.id:
            leader_id = NOBODY  # this node knows better, and does not follow itself
        if leader_id != NOBODY and address is None:
            address = self.address_of(leader_id)
        if epoch > self.epoch:
            if leader_id == NOBODY or address is None:
                self.unattach(epoch, now)
            else:
                self.follow(epoch, leader_id, address, now)
        elif leader_id == NOBODY:
            return
        elif self.leader_id not in (NOBODY, leader_id):
            self.listener.failed(
                f"nodes {self.leader_id} and {leader_id} both lead epoch {epoch} of the quorum"
            )
        elif address is not None and (self.leader_id == NOBODY or self.leader_address is None):
            self.follow(epoch, leader_id, address, now)
        elif address is not None:
            self.leader_address = address

    def observe(
        self, error: int, leader_id: int, epoch: int, address: Address | None, now: Now
    ) -> bool:
        """The common rule for answers; whether what else it says counts."""
        if not self.epoch <= epoch < LAST_EPOCH or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            return False
        self.adopt(leader_id, epoch, address, now)
        return error == ErrorCode.NONE

    # The high watermark.

    def raise_high_watermark(self, offset: Offset) -> None:
        """It never falls."""
        if offset > self.high_watermark:
            assert offset <= self.log.log_end_offset
            self.high_watermark = offset
            self.tell(lambda now: self.listener.high_watermark_moved(offset, now))
