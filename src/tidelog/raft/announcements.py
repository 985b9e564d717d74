"""A leader makes itself known to voters that do not fetch, and says goodbye when it resigns:
both sides of BeginQuorumEpoch and EndQuorumEpoch."""

from __future__ import annotations

from functools import partial
from typing import Any

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.raft.elections import Elections
from tidelog.raft.messages import (
    begin_quorum_epoch_request,
    begin_quorum_epoch_response,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
)
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Follower, Leader, Resigned
from tidelog.raft.types import NEVER, Address, Answer
from tidelog.raft.validation import (
    heed,
    is_addressed,
    opened,
    voter_only_error,
)
from tidelog.wire.declare import Message
from tidelog.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from tidelog.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    PartitionData,
)


class Announcements:
    """A part of raft."""

    def __init__(self, quorum: Quorum, elections: Elections) -> None:
        self._quorum = quorum
        self._elections = elections

    @property
    def next_deadline_ms(self) -> int:
        role = self._quorum.role
        if not self._quorum.gate.is_open:
            return NEVER
        if isinstance(role, Leader):
            return min(role.begin.values(), default=NEVER)
        return role.resend.next_ms if isinstance(role, Resigned) else NEVER

    def work(self, now: Now) -> bool:
        """Send what is due."""
        role = self._quorum.role
        if not self._quorum.gate.is_open:
            return False
        if isinstance(role, Leader):
            return self._begin(role, now)
        return self._end(role, now) if isinstance(role, Resigned) else False

    # The leader.

    def _begin(self, role: Leader, now: Now) -> bool:
        quorum = self._quorum
        if role.announced_to is not quorum.voters:
            role.announced_to = quorum.voters
            role.begin = {v: role.begin.get(v, now.monotonic_ms) for v in quorum.others}
        due = [v for v, time_ms in role.begin.items() if time_ms <= now.monotonic_ms]
        for voter_id in due:
            role.begin[voter_id] = NEVER
            address = quorum.address_of(voter_id)
            if address is None:
                continue
            request = begin_quorum_epoch_request(
                quorum.cluster_id,
                quorum.voters.key(voter_id),
                quorum.key.id,
                quorum.epoch,
                quorum.config.endpoints,
            )
            then = partial(self._begin_answered, role, voter_id)
            quorum.channel.send(address, request, then, now, quorum.config.request_timeout_ms)
        return bool(due)

    def _begin_answered(
        self, role: Leader, voter_id: int, response: Message | PeerFailure, now: Now
    ) -> None:
        quorum = self._quorum
        if not isinstance(response, PeerFailure):
            heed(quorum, response, now)
        if role is quorum.role and voter_id in role.begin:
            role.begin[voter_id] = now.monotonic_ms + quorum.config.begin_quorum_interval_ms
        quorum.settle(now)

    def _end(self, role: Resigned, now: Now) -> bool:
        quorum = self._quorum
        due = role.resend.due(now.monotonic_ms)
        for voter_id in due:
            role.resend.sent(voter_id)
            address = quorum.address_of(voter_id) if voter_id in quorum.voters else None
            if address is None:
                continue
            endpoints = quorum.config.endpoints
            request = end_quorum_epoch_request(
                quorum.cluster_id, quorum.key.id, quorum.epoch, role.candidates, endpoints
            )
            then = partial(self._end_answered, role, voter_id)
            quorum.channel.send(address, request, then, now, quorum.config.request_timeout_ms)
        return bool(due)

    def _end_answered(
        self, role: Resigned, voter_id: int, response: Message | PeerFailure, now: Now
    ) -> None:
        quorum = self._quorum
        if not isinstance(response, PeerFailure) and heed(quorum, response, now) is not None:
            role.resend.answered(voter_id)
        role.resend.failed(voter_id, now.monotonic_ms, quorum.config.retry_backoff_ms)
        quorum.settle(now)

    # Those that are told.

    def begin_quorum_epoch(
        self, request: BeginQuorumEpochRequest, now: Now, answer: Answer
    ) -> None:
        """Handles a leader's greeting."""
        quorum = self._quorum
        error, told = opened(quorum, request)
        if error is not ErrorCode.NONE:
            quorum.reply(answer, BeginQuorumEpochResponse(error_code=error, topics=()))
        else:
            error = self._take_leader(told, request.leader_endpoints, now)
            directory = told.voter_directory_id
            is_ours = is_addressed(quorum.key, request.voter_id, directory)
            if error is ErrorCode.NONE and not is_ours:
                error = ErrorCode.INVALID_VOTER_KEY
            quorum.reply(answer, begin_quorum_epoch_response(error, quorum.leader_view))
        quorum.settle(now)

    def end_quorum_epoch(self, request: EndQuorumEpochRequest, now: Now, answer: Answer) -> None:
        """Handles a leader's goodbye: an election is called soon, and by the best voter first."""
        quorum = self._quorum
        error, told = opened(quorum, request)
        if error is not ErrorCode.NONE:
            quorum.reply(answer, EndQuorumEpochResponse(error_code=error, topics=()))
        else:
            error = self._take_leader(told, request.leader_endpoints, now)
            role = quorum.role
            is_followed = quorum.leader_id == told.leader_id
            if error is ErrorCode.NONE and is_followed and isinstance(role, Follower):
                role.leader_is_gone = True
                role.deadline_ms = now.monotonic_ms + self._succession_ms(told)
            quorum.reply(answer, end_quorum_epoch_response(error, quorum.leader_view))
        quorum.settle(now)

    def _take_leader(self, told: Any, endpoints: Any, now: Now) -> ErrorCode:
        quorum = self._quorum
        error = voter_only_error(quorum, told.leader_id, told.leader_epoch)
        if error is ErrorCode.NONE:
            name = quorum.config.listener_name
            where = (Address(one.host, one.port) for one in endpoints if one.name == name)
            quorum.adopt(told.leader_id, told.leader_epoch, next(where, None), now)
            self._elections.heard(told.leader_id, now)
        return error

    def _succession_ms(self, told: PartitionData) -> int:
        """How long this voter leaves the election to those with a better place in the list."""
        longest_ms = self._quorum.config.election_backoff_max_ms
        ids = [one.candidate_id for one in told.preferred_candidates]
        ids = ids or list(told.preferred_successors)
        if self._quorum.key.id not in ids:
            return longest_ms
        place = ids.index(self._quorum.key.id)
        if place == 0:
            return 0
        return min(longest_ms, (longest_ms >> (len(ids) - 1)) << (place - 1))
