"""Who votes. A set never changes; the history knows which set counts at which offset of the log:
the latest in it counts at once, committed or not, and a truncation brings back the one before."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tidelog.raft.types import Address, ReplicaKey
from tidelog.types import ZERO_UUID, Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    Voter,
    VotersRecord,
)

KRAFT_VERSION_MIN, KRAFT_VERSION_MAX = 0, 1
"""What this node supports; from 1 on the voters are in the log."""
BEFORE_THE_LOG = -1
"""The offset of voters that the log does not have: of the configuration or the format."""


class VoterSet:
    """Voters by id. Those of a static quorum have no directory and one endpoint."""

    __slots__ = ("ids", "majority", "voters")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self.voters = {voter.voter_id: voter for voter in sorted(voters, key=_id)}
        self.ids = tuple(self.voters)
        """Rising."""
        self.majority = len(self.ids) // 2 + 1

    def __repr__(self) -> str:
        return f"VoterSet({list(self.voters)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.voters == other.voters

    def __hash__(self) -> int:
        return hash(tuple(self.voters.values()))

    def __len__(self) -> int:
        return len(self.voters)

    def __contains__(self, voter_id: int) -> bool:
        return voter_id in self.voters

    def is_majority(self, ids: Collection[int]) -> bool:
        """Whether these are enough; who is no voter does not count."""
        return sum(1 for voter_id in ids if voter_id in self.voters) >= self.majority

    def key(self, voter_id: int) -> ReplicaKey:
        return ReplicaKey(voter_id, self.voters[voter_id].voter_directory_id)

    def is_voter(self, key: ReplicaKey) -> bool:
        """A known directory must be the voter's."""
        voter = self.voters.get(key.id)
        return voter is not None and voter.voter_directory_id in (ZERO_UUID, key.directory_id)

    def address(self, voter_id: int, listener_name: str) -> Address | None:
        """Of a voter on a listener."""
        voter = self.voters.get(voter_id)
        return None if voter is None else address_of(voter.endpoints, listener_name)

    def with_voter(self, voter: Voter) -> VoterSet:
        """The same with one more, or one that is described anew."""
        return VoterSet([*(v for v in self.voters.values() if v.voter_id != voter.voter_id), voter])

    def without(self, voter_id: int) -> VoterSet:
        return VoterSet(v for v in self.voters.values() if v.voter_id != voter_id)

    def to_record(self) -> VotersRecord:
        return VotersRecord(version=0, voters=tuple(self.voters.values()))


def _id(voter: Voter) -> int:
    return voter.voter_id


def address_of(endpoints: Iterable[Endpoint], listener_name: str) -> Address | None:
    """Of the listener by which nodes of the quorum talk."""
    for endpoint in endpoints:
        if endpoint.name == listener_name:
            return Address(endpoint.host, endpoint.port)
    return None


def voter_of(key: ReplicaKey, endpoints: Iterable[Endpoint]) -> Voter:
    """This node as a voter."""
    return Voter(
        voter_id=key.id,
        voter_directory_id=key.directory_id,
        endpoints=tuple(endpoints),
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=KRAFT_VERSION_MIN, max_supported_version=KRAFT_VERSION_MAX
        ),
    )


def static_voters(voters: Iterable[tuple[int, Address]], listener_name: str) -> VoterSet:
    """Of controller.quorum.voters."""
    return VoterSet(
        voter_of(
            ReplicaKey(voter_id),
            [Endpoint(name=listener_name, host=address.host, port=address.port)],
        )
        for voter_id, address in voters
    )


class VotersAt(NamedTuple):
    """Which voters count from an offset on."""

    offset: Offset
    kraft_version: int
    voters: VoterSet


class VoterHistory:
    """Never empty; offsets rise."""

    def __init__(self, configured: VoterSet) -> None:
        self._entries = [VotersAt(BEFORE_THE_LOG, 0, configured)]

    @property
    def latest(self) -> VotersAt:
        return self._entries[-1]

    def note(self, offset: Offset, record: Message) -> bool:
        """A control record stands at an offset; whether it is about voters."""
        if isinstance(record, KRaftVersionRecord):
            entry = self.latest._replace(offset=offset, kraft_version=record.kraft_version)
        elif isinstance(record, VotersRecord):
            entry = self.latest._replace(offset=offset, voters=VoterSet(record.voters))
        else:
            return False
        while self._entries and self._entries[-1].offset >= offset:
            self._entries.pop()
        self._entries.append(entry)
        return True

    def at(self, end_offset: Offset) -> VotersAt:
        """As of all records below an offset."""
        for entry in reversed(self._entries):
            if entry.offset < end_offset:
                return entry
        return self._entries[0]

    def truncate_to(self, end_offset: Offset) -> None:
        """The records at the offset and above are gone."""
        while len(self._entries) > 1 and self._entries[-1].offset >= end_offset:
            self._entries.pop()

    def forget_below(self, offset: Offset) -> None:
        """Nobody asks any more for what counted before."""
        while len(self._entries) > 1 and self._entries[1].offset < offset:
            del self._entries[0]
