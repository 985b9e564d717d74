"""What is said of voters that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.raft.test_elections import started
from tests.unit.raft.test_voter_changes import add, code, grown, remove
from tests.unit.raft.world import Node, World, dynamic_world

from tidelog.errors import ErrorCode
from tidelog.raft.voters import VoterSet
from tidelog.sim.counters import Counters
from tidelog.sim.plan import host
from tidelog.sim.quorum import QuorumInvariants
from tidelog.sim.violation import Violation


class Watched:
    """Voters 1, 2 and 3, and 11 that may become one; the invariants look at the leader."""

    def __init__(self) -> None:
        self.world: World = started(dynamic_world([1, 2, 3], others=(11, 12)))
        self.leader: Node = grown(self.world)
        self.counters = Counters()
        self.invariants = QuorumInvariants(self.counters)
        self.invariants._is_durable = lambda machine, wanted: True  # type: ignore[method-assign]
        self.invariants.started(host(self.leader.id), self.leader.disk, self.leader.raft)

    def look(self) -> None:
        self.invariants.stepped(host(self.leader.id), self.leader.disk, self.leader.raft)

    def append(self, change: Callable[[VoterSet], VoterSet]) -> None:
        """What no leader should."""
        raft: Any = self.leader.raft
        record = change(raft.voters).to_record()
        raft._leading.append_control([record], self.world.now)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_voters_come_and_go_one_at_a_time(watched: Watched) -> None:
    newcomer = watched.world.nodes[11]
    assert code(watched.leader, add(newcomer.key)) is ErrorCode.NONE
    watched.look()
    assert code(watched.leader, remove(newcomer.key)) is ErrorCode.NONE
    watched.look()
    assert watched.counters.branches["a voter was added"] == 1
    assert watched.counters.branches["a voter was removed"] == 1


def test_two_at_once_are_too_many(watched: Watched) -> None:
    gone = [one for one in (1, 2, 3) if one != watched.leader.id]
    watched.append(lambda voters: voters.without(gone[0]).without(gone[1]))
    with pytest.raises(Violation, match="differ by one voter"):
        watched.look()


def test_a_voter_with_another_disk_is_another_voter(watched: Watched) -> None:
    other = next(one for one in (1, 2, 3) if one != watched.leader.id)
    swapped = watched.world.nodes[11].key.directory_id

    def change(voters: VoterSet) -> VoterSet:
        return voters.with_voter(voters.voters[other].replace(voter_directory_id=swapped))

    watched.append(change)
    with pytest.raises(Violation, match="differ by one voter"):
        watched.look()


def test_one_change_waits_for_the_other(watched: Watched) -> None:
    gone = [one for one in (1, 2, 3) if one != watched.leader.id]
    watched.append(lambda voters: voters.without(gone[0]))
    watched.look()
    watched.append(lambda voters: voters.without(gone[1]))
    with pytest.raises(Violation, match="one change of the voters at a time"):
        watched.look()


def test_the_latest_counts_before_it_is_committed(watched: Watched) -> None:
    raft: Any = watched.leader.raft
    before = raft.voters
    watched.append(lambda voters: voters.without(next(v for v in (1, 2, 3) if v != raft.leader_id)))
    raft._quorum.history.note(raft.log.log_end_offset - 1, before.to_record())
    with pytest.raises(Violation, match="the latest voters in the log count"):
        watched.look()


def test_what_is_truncated_counts_no_more(watched: Watched) -> None:
    """Of a follower, which a leader without that record has cut."""
    follower = next(watched.world.nodes[one] for one in (1, 2, 3) if one != watched.leader.id)
    watched.invariants.started(host(follower.id), follower.disk, follower.raft)
    assert code(watched.leader, add(watched.world.nodes[11].key)) is ErrorCode.NONE
    watched.world.run(300)
    watched.look()
    watched.invariants.stepped(host(follower.id), follower.disk, follower.raft)
    assert len(follower.raft.voters) == 4
    quorum: Any = follower.raft._quorum
    offset = quorum.history.latest.offset
    quorum.high_watermark = offset
    watched.invariants.ledger.committed.truncate(offset)
    watched.invariants.ledger.high_watermark = offset
    watched.invariants._marks[host(follower.id)] = (
        *watched.invariants._marks[host(follower.id)][:3],
        offset,
        *watched.invariants._marks[host(follower.id)][4:],
    )
    kept = quorum.history.latest
    quorum.truncate_to(offset)
    watched.invariants.stepped(host(follower.id), follower.disk, follower.raft)
    assert len(follower.raft.voters) == 3
    quorum.history._entries.append(kept)  # it does not go back
    quorum.state = quorum.state._replace(epoch=quorum.epoch + 1)
    with pytest.raises(Violation, match="the latest voters in the log count"):
        watched.invariants.stepped(host(follower.id), follower.disk, follower.raft)
