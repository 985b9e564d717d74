"""How far the leader knows each replica to have come: voters for the high watermark, observers
for those who ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.env import Now
from tidelog.raft.types import ReplicaKey
from tidelog.raft.voters import VoterSet
from tidelog.types import ZERO_UUID, Offset

OBSERVER_SESSION_MS = 300_000
"""After so long a silent observer is forgotten."""
OBSERVERS_MAX = 10_000
JOIN_SILENCE_MAX_MS = 3_600_000
"""Who wants to become a voter must have fetched within the last hour."""


class Replica:
    """One of them. Its end offset is that of its last fetch, and so durable there."""

    __slots__ = (
        "caught_up_wall_ms",
        "end_offset",
        "fetch_ms",
        "fetch_wall_ms",
        "key",
        "leader_end_offset",
    )

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.end_offset: Offset | None = None
        self.leader_end_offset: Offset = -1
        """Of the leader's log at the last fetch."""
        self.fetch_ms = -1
        self.fetch_wall_ms = -1
        self.caught_up_wall_ms = -1

    def fetched(self, offset: Offset, leader_end_offset: Offset, now: Now) -> None:
        """It asks for what comes at an offset: it has all below."""
        if offset >= leader_end_offset:
            self.caught_up_wall_ms = max(self.caught_up_wall_ms, now.wall_ms)
        elif offset >= self.leader_end_offset >= 0:
            self.caught_up_wall_ms = max(self.caught_up_wall_ms, self.fetch_wall_ms)
        self.end_offset = offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.fetch_ms, self.fetch_wall_ms = now.monotonic_ms, now.wall_ms


class Replicas:
    """Of one leader's epoch. Which of them vote is the voter set's to say."""

    def __init__(self) -> None:
        self._by_key: dict[ReplicaKey, Replica] = {}
        self.fetches = 0

    def get(self, key: ReplicaKey) -> Replica | None:
        return self._by_key.get(key)

    def track(self, key: ReplicaKey, voters: VoterSet, now: Now) -> Replica | None:
        """The replica of a node that fetches; None if too many of them do that do not vote."""
        self.fetches += 1
        replica = self._by_key.get(key)
        if replica is None:
            if voters.is_voter(key):
                self._forget_others(key, voters)
            elif len(self._by_key) >= OBSERVERS_MAX:
                self._forget_silent(voters, now)
                if len(self._by_key) >= OBSERVERS_MAX:
                    return None
            replica = self._by_key[key] = Replica(key)
        return replica

    def _forget_others(self, key: ReplicaKey, voters: VoterSet) -> None:
        """Where directories do not count: the one that fetched last is the voter."""
        if voters.key(key.id).directory_id == ZERO_UUID:
            for other in [one for one in self._by_key if one.id == key.id]:
                del self._by_key[other]

    def voter(self, voters: VoterSet, voter_id: int) -> Replica | None:
        """A voter's replica; where directories do not count, the one that fetched last."""
        key = voters.key(voter_id)
        if key.directory_id != ZERO_UUID:
            return self._by_key.get(key)
        known = [replica for replica in self._by_key.values() if replica.key.id == voter_id]
        return max(known, key=lambda replica: replica.fetch_ms, default=None)

    def majority_end_offset(
        self, voters: VoterSet, own_id: int, own_end_offset: Offset
    ) -> Offset | None:
        """What a majority of voters has; None if that cannot be said yet."""
        ends = []
        for voter_id in voters.ids:
            replica = self.voter(voters, voter_id)
            end = None if replica is None else replica.end_offset
            ends.append(own_end_offset if voter_id == own_id else -1 if end is None else end)
        ends.sort(reverse=True)
        found = ends[len(ends) // 2] if ends else -1
        return None if found < 0 else found

    def best_first(self, voters: VoterSet, voter_ids: Iterable[int]) -> list[ReplicaKey]:
        """Who has most of the log comes first."""

        def place(voter_id: int) -> tuple[Offset, int]:
            replica = self.voter(voters, voter_id)
            end = None if replica is None else replica.end_offset
            return 1 if end is None else -end, voter_id

        return [voters.key(voter_id) for voter_id in sorted(voter_ids, key=place)]

    def observers(self, voters: VoterSet, now: Now) -> Iterator[Replica]:
        """All that fetch and do not vote, by id."""
        self._forget_silent(voters, now)
        for key in sorted(self._by_key):
            if not voters.is_voter(key):
                yield self._by_key[key]

    def _forget_silent(self, voters: VoterSet, now: Now) -> None:
        since_ms = now.monotonic_ms - OBSERVER_SESSION_MS
        self._by_key = {
            key: replica
            for key, replica in self._by_key.items()
            if replica.fetch_ms >= since_ms or voters.is_voter(key)
        }
