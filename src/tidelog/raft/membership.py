"""What a follower asks of the leader for itself: to be known as it is now, or to become a voter."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Follower
from tidelog.raft.types import NEVER
from tidelog.raft.voters import voter_of
from tidelog.wire.declare import Message
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.add_raft_voter import Listener as AddedListener
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
)


class Membership:
    """A part of raft. It looks again after each fetch timeout, as Apache Kafka does."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    @property
    def next_deadline_ms(self) -> int:
        role = self._quorum.role
        if not isinstance(role, Follower) or not self._quorum.gate.is_open:
            return NEVER
        return role.update_ms if self._quorum.config.is_controller else NEVER

    def work(self, now: Now) -> bool:
        """Ask, if there is something to ask for."""
        quorum, role = self._quorum, self._quorum.role
        if self.next_deadline_ms > now.monotonic_ms:
            return False
        assert isinstance(role, Follower)
        role.update_ms = now.monotonic_ms + quorum.config.fetch_timeout_ms
        request = self._request(role)
        if request is None or quorum.leader_address is None:
            return True
        role.update_ms = NEVER

        def answered(response: Message | PeerFailure, now: Now) -> None:
            role.update_ms = now.monotonic_ms + quorum.config.fetch_timeout_ms
            if getattr(response, "error_code", None) == ErrorCode.NONE:
                role.has_updated = True
            quorum.settle(now)

        timeout_ms = quorum.config.request_timeout_ms
        quorum.channel.send(quorum.leader_address, request, answered, now, timeout_ms)
        return True

    def _request(self, role: Follower) -> Message | None:
        quorum = self._quorum
        own = voter_of(quorum.key, quorum.config.endpoints)
        if quorum.is_voter:
            is_known = quorum.voters.voters[quorum.key.id] == own
            if role.has_updated if quorum.kraft_version == 0 else is_known:
                return None
            return UpdateRaftVoterRequest(
                cluster_id=quorum.cluster_id,
                current_leader_epoch=quorum.epoch,
                voter_id=own.voter_id,
                voter_directory_id=own.voter_directory_id,
                listeners=tuple(
                    Listener(name=one.name, host=one.host, port=one.port) for one in own.endpoints
                ),
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=own.kraft_version_feature.min_supported_version,
                    max_supported_version=own.kraft_version_feature.max_supported_version,
                ),
            )
        if not quorum.config.auto_join or quorum.kraft_version == 0 or not role.has_fetched:
            return None
        if quorum.key.id in quorum.voters:
            # It had another disk: that voter is gone for ever.
            gone = quorum.voters.key(quorum.key.id)
            return RemoveRaftVoterRequest(
                cluster_id=quorum.cluster_id,
                voter_id=gone.id,
                voter_directory_id=gone.directory_id,
            )
        return AddRaftVoterRequest(
            cluster_id=quorum.cluster_id,
            timeout_ms=quorum.config.request_timeout_ms,
            voter_id=own.voter_id,
            voter_directory_id=own.voter_directory_id,
            listeners=tuple(
                AddedListener(name=one.name, host=one.host, port=one.port) for one in own.endpoints
            ),
            ack_when_committed=False,
        )
