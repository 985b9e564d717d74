"""Voter sets and which of them counts."""

from __future__ import annotations

from tests.unit.raft.world import address, directory, endpoint

from tidelog.raft.types import ReplicaKey
from tidelog.raft.voters import BEFORE_THE_LOG, VoterHistory, VoterSet, static_voters, voter_of
from tidelog.wire.messages.control_records import KRaftVersionRecord, LeaderChangeMessage


def voters(*ids: int) -> VoterSet:
    return VoterSet(voter_of(ReplicaKey(one, directory(one)), [endpoint(one)]) for one in ids)


STATIC = static_voters([(3, address(3)), (1, address(1)), (2, address(2))], "CONTROLLER")


def test_a_majority_counts_voters_alone():
    three = voters(3, 1, 2)
    assert three.ids == (1, 2, 3)
    assert three.majority == 2
    assert not three.is_majority([1, 7, 8])
    assert three.is_majority([1, 7, 3])
    assert [voters(*range(count)).majority for count in (1, 2, 4, 5)] == [1, 2, 3, 3]


def test_a_voter_is_its_directory_where_that_is_known():
    assert voters(1).is_voter(ReplicaKey(1, directory(1)))
    assert not voters(1).is_voter(ReplicaKey(1, directory(9)))
    assert not voters(1).is_voter(ReplicaKey(2, directory(2)))
    assert STATIC.is_voter(ReplicaKey(1, directory(9)))


def test_an_address_is_that_of_the_listener():
    assert STATIC.address(2, "CONTROLLER") == address(2)
    assert STATIC.address(2, "OTHER") is None
    assert STATIC.address(9, "CONTROLLER") is None


def test_one_more_and_one_less():
    assert voters(1, 2).with_voter(voters(3).voters[3]) == voters(1, 2, 3)
    assert voters(1, 2, 3).without(2) == voters(1, 3)


def test_the_latest_counts_and_a_truncation_brings_back_the_one_before():
    history = VoterHistory(STATIC)
    assert history.latest == (BEFORE_THE_LOG, 0, STATIC)
    assert history.note(4, KRaftVersionRecord(version=0, kraft_version=1))
    assert history.note(5, voters(1, 2, 3).to_record())
    assert history.note(9, voters(1, 2).to_record())
    change = LeaderChangeMessage(version=0, leader_id=1, voters=(), granting_voters=())
    assert not history.note(10, change)
    assert history.latest == (9, 1, voters(1, 2))
    assert history.at(9) == (5, 1, voters(1, 2, 3))
    assert history.at(5) == (4, 1, STATIC)
    assert history.at(4).kraft_version == 0
    history.truncate_to(10)
    assert history.latest.offset == 9
    history.truncate_to(9)
    assert history.latest == (5, 1, voters(1, 2, 3))
    history.truncate_to(0)
    assert history.latest == (BEFORE_THE_LOG, 0, STATIC)


def test_what_is_noted_again_takes_the_place_of_the_later_ones():
    history = VoterHistory(STATIC)
    history.note(4, voters(1).to_record())
    history.note(8, voters(1, 2).to_record())
    history.note(4, voters(3).to_record())
    assert history.latest.voters == voters(3)
    assert history.at(4).voters == STATIC


def test_what_nobody_asks_for_is_forgotten():
    history = VoterHistory(STATIC)
    history.note(4, voters(1).to_record())
    history.note(8, voters(1, 2).to_record())
    history.forget_below(8)
    assert history.at(8).voters == voters(1)
    assert history.at(2).voters == voters(1)
    history.forget_below(9)
    assert history.at(2).voters == voters(1, 2)
