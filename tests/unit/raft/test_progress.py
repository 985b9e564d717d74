"""What the leader remembers of those who fetch."""

from __future__ import annotations

import pytest
from tests.unit.raft.world import address, directory, endpoint

from tidelog.env import Now
from tidelog.raft import progress
from tidelog.raft.progress import OBSERVER_SESSION_MS, Replicas
from tidelog.raft.types import ReplicaKey
from tidelog.raft.voters import VoterSet, static_voters, voter_of

STATIC = static_voters([(1, address(1)), (2, address(2)), (3, address(3))], "CONTROLLER")
DYNAMIC = VoterSet(voter_of(ReplicaKey(n, directory(n)), [endpoint(n)]) for n in (1, 2, 3))


def fetched(replicas: Replicas, key: ReplicaKey, voters: VoterSet, time_ms: int) -> bool:
    now = Now(time_ms, time_ms)
    replica = replicas.track(key, voters, now)
    if replica is not None:
        replica.fetched(5, 5, now)
    return replica is not None


@pytest.mark.parametrize("voters", [STATIC, DYNAMIC])
def test_a_crowd_of_observers_keeps_no_voter_from_counting(
    monkeypatch: pytest.MonkeyPatch, voters: VoterSet
) -> None:
    monkeypatch.setattr(progress, "OBSERVERS_MAX", 4)
    replicas = Replicas()
    crowd = [fetched(replicas, ReplicaKey(n, directory(n)), voters, 0) for n in range(10, 20)]
    assert crowd == [True] * 4 + [False] * 6
    assert fetched(replicas, ReplicaKey(2, directory(2)), voters, 0)
    assert replicas.majority_end_offset(voters, 1, 7) == 5
    later_ms = OBSERVER_SESSION_MS + 1
    assert fetched(replicas, ReplicaKey(20, directory(20)), voters, later_ms), "the others are gone"


def test_a_static_voter_is_one_replica_whatever_directories_it_names() -> None:
    replicas = Replicas()
    for number in range(50):
        assert fetched(replicas, ReplicaKey(2, directory(number)), STATIC, number)
    assert [replicas.get(ReplicaKey(2, directory(n))) is None for n in (0, 48, 49)] == [
        True,
        True,
        False,
    ]
    assert replicas.voter(STATIC, 2) is replicas.get(ReplicaKey(2, directory(49)))
