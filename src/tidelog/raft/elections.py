"""Elections: when one is called, and who gets a vote.

The random timeouts are the backstop. A voter that knows the leader to be gone, or never had one
and can reach a majority, does not wait for them: the one with the lowest id goes first, the
others a little later, so that most often one election is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.raft.messages import vote_request, vote_response
from tidelog.raft.quorum import STAGGER_MS, Quorum
from tidelog.raft.roles import Election, Follower, Resigned, Unattached
from tidelog.raft.types import NEVER, NOBODY, Answer, ReplicaKey
from tidelog.raft.validation import (
    heed,
    is_addressed,
    opened,
    voter_only_error,
)
from tidelog.types import ZERO_UUID
from tidelog.wire.declare import Message
from tidelog.wire.messages.vote import PartitionData, VoteRequest, VoteResponse

HURRY_MS = 10
HURRY_DOUBLINGS_MAX = 4


class Elections:
    """A part of raft: the roles of a voter but leading and following."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._hurry_ms = NEVER
        """When to call an election although no timeout ran out."""
        self._lost = 0
        """Pre-votes since there was a leader."""
        self._reachable: dict[int, None] = {}
        self.when_heard: Callable[[int, Now], None] = lambda voter_id, now: None
        self.when_doubted: Callable[[Now], None] = lambda now: None
        """Another voter takes the leader for gone, whom this one follows."""

    @property
    def next_deadline_ms(self) -> int:
        quorum, role = self._quorum, self._quorum.role
        if isinstance(role, Election):
            ask_ms = role.resend.next_ms if quorum.gate.is_open else NEVER
            return NEVER if role.is_won else min(role.deadline_ms, ask_ms)
        if isinstance(role, Resigned):
            return role.deadline_ms
        if isinstance(role, Unattached | Follower) and quorum.is_voter:
            return min(role.deadline_ms, self._hurry_ms)
        return NEVER

    def work(self, now: Now) -> bool:
        """Call, count and end elections; ask for votes."""
        quorum, role = self._quorum, self._quorum.role
        if isinstance(role, Unattached | Follower):
            if now.monotonic_ms < min(role.deadline_ms, self._hurry_ms) or not quorum.is_voter:
                return False
            self._hurry_ms = NEVER
            if quorum.others:
                quorum.call_election(now)
            else:
                quorum.elect_self(now)
            return True
        if isinstance(role, Election):
            return self._count(role, now) or self._ask(role, now)
        if isinstance(role, Resigned) and now.monotonic_ms >= role.deadline_ms:
            quorum.unattach(quorum.epoch + 1, now)
            return True
        return False

    # Hurrying.

    def heard(self, voter_id: int, now: Now) -> None:
        """A voter asked or answered: it can be reached."""
        quorum, role = self._quorum, self._quorum.role
        if voter_id not in quorum.voters:
            return
        if isinstance(role, Election | Resigned):
            role.resend.reachable(voter_id, now.monotonic_ms)
        self.when_heard(voter_id, now)
        self._reachable[voter_id] = None
        is_free = isinstance(role, Unattached) and not role.has_voted
        reached = [quorum.key.id, *self._reachable]
        if is_free and quorum.leader_id == NOBODY and quorum.voters.is_majority(reached):
            self._hurry([v for v in quorum.others if v in self._reachable], now)

    def leader_is_gone(self, now: Now) -> None:
        """As if the fetch timeout had run out."""
        quorum, role = self._quorum, self._quorum.role
        if isinstance(role, Follower):
            role.leader_is_gone = True
            self._hurry([v for v in quorum.others if v != quorum.leader_id], now)

    def _hurry(self, rivals: list[int], now: Now) -> None:
        quorum = self._quorum
        if not quorum.is_voter or self._hurry_ms != NEVER:
            return
        delay_ms = HURRY_MS + quorum.stagger_ms(rivals)
        delay_ms <<= min(self._lost, HURRY_DOUBLINGS_MAX)
        self._hurry_ms = now.monotonic_ms + delay_ms

    def has_leader(self) -> None:
        """No need to hurry any more."""
        self._hurry_ms, self._lost = NEVER, 0
        self._reachable.clear()

    def _make_way(self, now: Now) -> None:
        """Another voter is being elected."""
        if self._hurry_ms != NEVER:
            later_ms = now.monotonic_ms + STAGGER_MS * (1 + len(self._quorum.others))
            self._hurry_ms = max(self._hurry_ms, later_ms)

    # Asking for votes.

    def _ask(self, role: Election, now: Now) -> bool:
        quorum = self._quorum
        due = role.resend.due(now.monotonic_ms) if quorum.gate.is_open and not role.is_won else []
        for voter_id in due:
            role.resend.sent(voter_id)
            address = quorum.address_of(voter_id) if voter_id in quorum.voters else None
            if address is None:
                continue
            request = vote_request(
                quorum.cluster_id,
                quorum.voters.key(voter_id),
                quorum.key,
                quorum.epoch,
                quorum.last,
                is_pre_vote=role.is_pre_vote,
            )
            then = partial(self._answered, role, voter_id)
            quorum.channel.send(address, request, then, now, quorum.config.request_timeout_ms)
        return bool(due)

    def _answered(
        self, role: Election, voter_id: int, response: Message | PeerFailure, now: Now
    ) -> None:
        quorum = self._quorum
        if response is PeerFailure.REFUSED:
            role.unreachable[voter_id] = None
        elif not isinstance(response, PeerFailure):
            partition = heed(quorum, response, now)
            self.heard(voter_id, now)
            if partition is not None and role is quorum.role:
                role.resend.answered(voter_id)
                tally = role.granted if partition.vote_granted else role.refused
                tally.append(voter_id)
        if role is quorum.role:
            error = getattr(response, "error_code", None)
            if error == ErrorCode.UNSUPPORTED_VERSION and role.is_pre_vote:
                quorum.stand_as_candidate(now)  # it knows nothing of pre-votes
            else:
                backoff_ms = quorum.config.retry_backoff_ms
                role.resend.failed(voter_id, now.monotonic_ms, backoff_ms)
        quorum.settle(now)

    def _count(self, role: Election, now: Now) -> bool:
        quorum = self._quorum
        if role.is_won:
            return False
        voters = quorum.voters
        if voters.is_majority(role.granted):
            if role.is_pre_vote:
                quorum.stand_as_candidate(now)
            else:
                role.is_won = True
                state = quorum.state._replace(leader_id=quorum.key.id)
                quorum.enter(role, state, quorum.address_of(quorum.key.id), now)
            return True
        # Once somebody has refused, those who are not there can be counted on as little.
        against = {*role.refused, *role.unreachable} - {*role.granted}
        is_refused = bool(role.refused) and len(voters) - len(against) < voters.majority
        if now.monotonic_ms < role.deadline_ms and not (role.is_pre_vote and is_refused):
            return False
        # A lost election waits for its timeout, and begins anew with a pre-vote.
        self._lost += 1
        if role.is_pre_vote or not quorum.is_voter:
            quorum.give_up_election(now)
            if quorum.leader_id in role.unreachable:
                self.leader_is_gone(now)
        else:
            quorum.call_election(now)
        return True

    # Giving votes.

    def vote(self, request: VoteRequest, now: Now, answer: Answer) -> None:
        """Handles Vote, and the question whether there would be one."""
        quorum = self._quorum
        error, partition = opened(quorum, request)
        if error is not ErrorCode.NONE:
            quorum.reply(answer, VoteResponse(error_code=error, topics=()))
        else:
            error, is_granted = self._decide(request.voter_id, partition, now)
            self.heard(partition.replica_id, now)
            view = quorum.leader_view
            quorum.reply(answer, vote_response(error, view, is_granted=is_granted))
        quorum.settle(now)

    def _decide(self, voter_id: int, asked: PartitionData, now: Now) -> tuple[ErrorCode, bool]:
        quorum = self._quorum
        is_behind = asked.last_offset_epoch < asked.replica_epoch + asked.pre_vote
        if not is_behind or min(asked.last_offset, asked.last_offset_epoch) < 0:
            return ErrorCode.INVALID_REQUEST, False
        error = voter_only_error(quorum, asked.replica_id, asked.replica_epoch)
        if error is not ErrorCode.NONE:
            return error, False
        if asked.replica_epoch > quorum.epoch:
            quorum.unattach(asked.replica_epoch, now)
        if not is_addressed(quorum.key, voter_id, asked.voter_directory_id):
            return ErrorCode.INVALID_VOTER_KEY, False
        is_up_to_date = (asked.last_offset_epoch, asked.last_offset) >= quorum.last
        candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        if asked.pre_vote:
            is_granted = is_up_to_date and self._would_vote()
            if is_up_to_date and not is_granted:
                self.when_doubted(now)
        else:
            is_granted = self._may_vote(candidate, is_up_to_date=is_up_to_date)
            if is_granted and quorum.state.voted is None:
                quorum.give_vote(candidate, now)
                self._hurry_ms = NEVER
        if is_granted:
            self._make_way(now)
        return ErrorCode.NONE, is_granted

    def _would_vote(self) -> bool:
        match self._quorum.role:
            case Unattached() | Election() | Resigned():
                return True
            case Follower() as follower:
                return follower.leader_is_gone or not follower.has_fetched
            case _:
                return False

    def _may_vote(self, candidate: ReplicaKey, *, is_up_to_date: bool) -> bool:
        role, voted = self._quorum.role, self._quorum.state.voted
        can_vote = isinstance(role, Unattached) or (isinstance(role, Election) and role.is_pre_vote)
        if not can_vote:
            return False
        if voted is not None:
            return voted.id == candidate.id and voted.directory_id in (
                ZERO_UUID,
                candidate.directory_id,
            )
        return self._quorum.leader_id == NOBODY and is_up_to_date
