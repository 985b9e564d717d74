"""The leader changes the set of voters, by one voter at a time: AddRaftVoter, RemoveRaftVoter,
UpdateRaftVoter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.log.results import Appended
from tidelog.metadata.features import KRAFT_VERSION
from tidelog.raft.leading import Leading
from tidelog.raft.messages import update_voter_response
from tidelog.raft.progress import JOIN_SILENCE_MAX_MS
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Leader, VoterChange
from tidelog.raft.types import Answer, ReplicaKey
from tidelog.raft.validation import cluster_error, leader_only_error
from tidelog.raft.voters import VoterSet, address_of, voter_of
from tidelog.types import ZERO_UUID
from tidelog.wire.declare import Message
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    Voter,
)
from tidelog.wire.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from tidelog.wire.messages.update_raft_voter import UpdateRaftVoterRequest

CLIENT_SOFTWARE = "tidelog"

Finish = Callable[[ErrorCode, str], None]


class VoterChanges:
    """A part of raft: handlers, and what follows from them."""

    def __init__(self, quorum: Quorum, leading: Leading) -> None:
        self._quorum = quorum
        self._leading = leading

    def _sound(
        self, cluster_id: str | None, key: ReplicaKey, endpoints: Iterable[Endpoint] | None = None
    ) -> tuple[ErrorCode, str]:
        """What is wrong with a request at any time. A voter without a directory would be one with
        every disk."""
        quorum = self._quorum
        error = cluster_error(cluster_id, quorum.cluster_id)
        if error is not ErrorCode.NONE:
            return error, "another cluster's"
        if not isinstance(quorum.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "ask the leader of the quorum"
        if key.id < 0 or key.directory_id == ZERO_UUID:
            return ErrorCode.INVALID_REQUEST, "a voter has an id and a directory"
        name = quorum.config.listener_name
        if endpoints is not None and address_of(endpoints, name) is None:
            return ErrorCode.INVALID_REQUEST, f"the voter has no listener {name}"
        return ErrorCode.NONE, ""

    def _may_change(self, *, is_update: bool = False) -> tuple[ErrorCode, str]:
        """Only one change at a time, and only once this epoch has committed something."""
        quorum, role = self._quorum, self._quorum.role
        assert isinstance(role, Leader)
        if role.change is not None:
            return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
        if role.high_watermark is None:
            return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed anything yet"
        if quorum.kraft_version == 0 and not is_update:
            return ErrorCode.UNSUPPORTED_VERSION, "the voters are those of the configuration"
        if quorum.history.latest.offset >= role.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed"
        return ErrorCode.NONE, ""

    def _begin(self, finish: Finish, timeout_ms: int, now: Now) -> VoterChange:
        role = self._quorum.role
        assert isinstance(role, Leader)
        role.change = VoterChange(finish, now.monotonic_ms + max(timeout_ms, 1))
        return role.change

    def _append(self, change: VoterChange, voters: VoterSet, now: Now) -> None:
        role = self._quorum.role
        assert isinstance(role, Leader)
        appended = self._leading.append_control([voters.to_record()], now)
        if isinstance(appended, Appended):
            change.end_offset = appended.last_offset + 1
        else:
            role.change = None
            change.finish(appended, "the record of the voters cannot be appended")

    # Adding.

    def add_voter(self, request: AddRaftVoterRequest, now: Now, answer: Answer) -> None:
        """Handles AddRaftVoter: the newcomer must be there, support what the quorum does, and
        have fetched all there was at some time."""
        quorum = self._quorum

        def finish(error: ErrorCode, text: str) -> None:
            message = text if error is not ErrorCode.NONE else None
            quorum.reply(answer, AddRaftVoterResponse(error_code=error, error_message=message))

        voter = Voter(
            voter_id=request.voter_id,
            voter_directory_id=request.voter_directory_id,
            endpoints=_endpoints(request.listeners),
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=0, max_supported_version=0
            ),
        )
        address = address_of(voter.endpoints, quorum.config.listener_name)
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        error, text = self._sound(request.cluster_id, key, voter.endpoints)
        if error is ErrorCode.NONE:
            error, text = self._may_change()
        if error is ErrorCode.NONE and request.voter_id in quorum.voters:
            error, text = ErrorCode.DUPLICATE_VOTER, f"{request.voter_id} is a voter already"
        if error is not ErrorCode.NONE or address is None:
            finish(error, text)
            quorum.settle(now)
            return
        change = self._begin(finish, request.timeout_ms, now)

        def described(response: Message | PeerFailure, now: Now) -> None:
            role = quorum.role
            if isinstance(role, Leader) and role.change is change:
                self._add(
                    change, voter, response, is_asynchronous=not request.ack_when_committed, now=now
                )
            quorum.settle(now)

        ask = ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE, client_software_version="1")
        quorum.channel.send(address, ask, described, now, quorum.config.request_timeout_ms)
        quorum.settle(now)

    def _add(
        self,
        change: VoterChange,
        voter: Voter,
        response: Message | PeerFailure,
        now: Now,
        *,
        is_asynchronous: bool,
    ) -> None:
        quorum, role = self._quorum, self._quorum.role
        assert isinstance(role, Leader)
        supported = kraft_versions(response)
        key = ReplicaKey(voter.voter_id, voter.voter_directory_id)
        replica = role.replicas.get(key)
        error, text = ErrorCode.NONE, ""
        if supported is None:
            error, text = ErrorCode.REQUEST_TIMED_OUT, "the new voter does not answer"
        elif (
            not supported.min_supported_version
            <= quorum.kraft_version
            <= (supported.max_supported_version)
        ):
            error = ErrorCode.INVALID_REQUEST
            text = f"the new voter does not support {KRAFT_VERSION} {quorum.kraft_version}"
        elif replica is None or replica.caught_up_wall_ms < 0:
            error, text = ErrorCode.REQUEST_TIMED_OUT, "the new voter has not caught up yet"
        elif now.monotonic_ms - replica.fetch_ms > JOIN_SILENCE_MAX_MS:
            error, text = ErrorCode.REQUEST_TIMED_OUT, "the new voter does not fetch"
        if error is not ErrorCode.NONE or supported is None:
            role.change = None
            change.finish(error, text)
            return
        voter = voter.replace(kraft_version_feature=supported)
        self._append(change, quorum.voters.with_voter(voter), now)
        if is_asynchronous and role.change is change:
            change.finish(ErrorCode.NONE, "")
            change.finish = _nobody_waits

    # Removing.

    def remove_voter(self, request: RemoveRaftVoterRequest, now: Now, answer: Answer) -> None:
        """Handles RemoveRaftVoter. A leader that removes itself leads until that is committed."""
        quorum = self._quorum

        def finish(error: ErrorCode, text: str) -> None:
            message = text if error is not ErrorCode.NONE else None
            quorum.reply(answer, RemoveRaftVoterResponse(error_code=error, error_message=message))

        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        error, text = self._sound(request.cluster_id, key)
        if error is ErrorCode.NONE:
            error, text = self._may_change()
        is_known = key.id in quorum.voters and quorum.voters.key(key.id) == key
        if error is ErrorCode.NONE and not is_known:
            error, text = ErrorCode.VOTER_NOT_FOUND, f"{key.id} is no voter with this directory"
        if error is ErrorCode.NONE and len(quorum.voters) == 1:
            error, text = ErrorCode.INVALID_REQUEST, "the last voter cannot be removed"
        if error is not ErrorCode.NONE:
            finish(error, text)
        else:
            change = self._begin(finish, quorum.config.request_timeout_ms, now)
            self._append(change, quorum.voters.without(key.id), now)
        quorum.settle(now)

    # Updating.

    def update_voter(self, request: UpdateRaftVoterRequest, now: Now, answer: Answer) -> None:
        """Handles UpdateRaftVoter: a voter has moved, or supports other versions. In a static
        quorum that is only remembered."""
        quorum, role = self._quorum, self._quorum.role

        def finish(error: ErrorCode, text: str = "") -> None:
            quorum.reply(answer, update_voter_response(error, quorum.leader_view))

        voter = Voter(
            voter_id=request.voter_id,
            voter_directory_id=request.voter_directory_id,
            endpoints=_endpoints(request.listeners),
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=request.kraft_version_feature.min_supported_version,
                max_supported_version=request.kraft_version_feature.max_supported_version,
            ),
        )
        error = self._update_error(request, voter)
        if error is not ErrorCode.NONE:
            finish(error)
        elif quorum.kraft_version == 0:
            assert isinstance(role, Leader)
            role.updates[voter.voter_id] = voter
            finish(ErrorCode.NONE)
        elif quorum.voters.voters[voter.voter_id] == voter:
            finish(ErrorCode.NONE)
        else:
            change = self._begin(finish, quorum.config.request_timeout_ms, now)
            self._append(change, quorum.voters.with_voter(voter), now)
        quorum.settle(now)

    def _update_error(self, request: UpdateRaftVoterRequest, voter: Voter) -> ErrorCode:
        quorum, supported = self._quorum, voter.kraft_version_feature
        least, most = supported.min_supported_version, supported.max_supported_version
        key = ReplicaKey(voter.voter_id, voter.voter_directory_id)
        error = cluster_error(request.cluster_id, quorum.cluster_id)
        if error is ErrorCode.NONE:
            error = leader_only_error(quorum, request.current_leader_epoch)
        if error is ErrorCode.NONE:
            error, _ = self._sound(request.cluster_id, key, voter.endpoints)
        if error is ErrorCode.NONE and not 0 <= least <= most:
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            error, _ = self._may_change(is_update=True)
        if error is ErrorCode.NONE and not least <= quorum.kraft_version <= most:
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE and not quorum.voters.is_voter(key):
            error = ErrorCode.VOTER_NOT_FOUND
        return error

    # From a static quorum to a dynamic one.

    def upgrade_kraft_version(self, kraft_version: int, now: Now) -> ErrorCode:
        """Put the voters of the configuration into the log, as they have described themselves.
        It is done when the records are committed."""
        quorum, role = self._quorum, self._quorum.role
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        error, _ = self._may_change(is_update=True)
        if error is not ErrorCode.NONE or kraft_version == quorum.kraft_version:
            return error
        own = voter_of(quorum.key, quorum.config.endpoints)
        voters = VoterSet([*(role.updates[v] for v in quorum.others if v in role.updates), own])
        are_able = all(
            voter.kraft_version_feature.max_supported_version >= kraft_version
            for voter in voters.voters.values()
        )
        if kraft_version < quorum.kraft_version or voters.ids != quorum.voters.ids or not are_able:
            return ErrorCode.INVALID_UPDATE_VERSION
        version = KRaftVersionRecord(version=0, kraft_version=kraft_version)
        appended = self._leading.append_control([version, voters.to_record()], now)
        quorum.settle(now)
        return appended if isinstance(appended, ErrorCode) else ErrorCode.NONE


def _nobody_waits(error: ErrorCode, text: str) -> None:
    """The answer was given when the record was appended."""


def _endpoints(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(name=one.name, host=one.host, port=one.port) for one in listeners)


def kraft_versions(response: Message | PeerFailure) -> KRaftVersionFeature | None:
    """What a node says that it supports; None if it does not say anything."""
    if not isinstance(response, ApiVersionsResponse) or response.error_code != ErrorCode.NONE:
        return None
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION:
            return KRaftVersionFeature(
                min_supported_version=feature.min_version,
                max_supported_version=feature.max_version,
            )
    return KRaftVersionFeature(min_supported_version=0, max_supported_version=0)
