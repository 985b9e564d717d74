"""Elections: who wins, who waits, and what a vote is worth. Numbers in names are those of the
scenarios in the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.raft.invariants import Invariants
from tests.unit.raft.world import (
    CLUSTER_ID,
    PATH,
    Node,
    World,
    directory,
    dynamic_world,
    endpoint,
    static_world,
)

from tidelog.errors import ErrorCode, PeerFailure
from tidelog.raft.election_state import ElectionState, format_quorum_state, parse_quorum_state
from tidelog.raft.messages import begin_quorum_epoch_request, vote_request
from tidelog.raft.types import LAST_EPOCH, ReplicaKey
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.vote import VoteRequest, VoteResponse


def started(world: World) -> World:
    Invariants(world)
    for node in world.nodes.values():
        node.start()
    return world


def stored(node: Node) -> ElectionState:
    return parse_quorum_state("f", node.disk.crash().read_file(f"{PATH}/quorum-state"))


def asked(node: Node, request: Message) -> Any:
    """The answer to a request, once it has been given."""
    answers: list[Message] = []
    node.handle(request, answers.append)
    node.world.run_until(lambda: bool(answers), 1000)
    return answers[0]


def vote_of(
    node: Node,
    candidate: int,
    epoch: int,
    last: tuple[int, int],
    *,
    is_pre_vote: bool = False,
    voter: ReplicaKey | None = None,
    cluster_id: str | None = None,
) -> tuple[ErrorCode, bool]:
    """What a node says to a request for its vote."""
    request = vote_request(
        cluster_id,  # type: ignore[arg-type]
        voter or ReplicaKey(node.id),
        ReplicaKey(candidate, directory(candidate)),
        epoch,
        last,
        is_pre_vote=is_pre_vote,
    )
    answer = asked(node, request)
    if answer.error_code:
        return ErrorCode(answer.error_code), False
    partition = answer.topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.vote_granted


class Votes:
    """Watches requests for votes."""

    def __init__(self, world: World) -> None:
        self.asked: list[tuple[int, int, bool]] = []
        world.watchers.append(self)

    def sent(self, node: Node, peer: Node, request: Message) -> None:
        if isinstance(request, VoteRequest):
            partition = request.topics[0].partitions[0]
            self.asked.append((node.id, partition.replica_epoch, partition.pre_vote))

    def answered(self, *_: object) -> None: ...
    def started(self, node: Node) -> None: ...
    def crashed(self, node: Node) -> None: ...


def test_a_quorum_of_one_elects_itself_at_once():
    world = static_world([1])
    node = world.nodes[1]
    node.flushes_at_once = True
    node.start()
    assert node.raft.is_leader
    assert ("gained", 1) in node.heard.news
    assert node.flush_count == 2, "quorum-state once, the log once"
    node.crash(power=True)
    node.flush_count = 0
    node.start()
    assert (node.raft.epoch, node.raft.high_watermark) == (2, 2)
    assert node.flush_count == 2


@pytest.mark.parametrize("make", [static_world, dynamic_world])
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_election_waits_for_no_timeout(make: Callable[..., World], count: int, seed: int):
    world = started(make(list(range(1, count + 1)), seed))
    start_ms = world.time_ms
    leader = world.elected()
    assert leader.raft.epoch == 1
    assert world.time_ms - start_ms < 150
    world.run(300)
    assert {node.raft.leader_id for node in world.nodes.values()} == {leader.id}


def test_a_majority_need_not_be_all():
    world = static_world([1, 2, 3])
    Invariants(world)
    world.nodes[2].start()
    world.run(5000)
    assert world.nodes[2].raft.role_name in ("prospective", "unattached")
    assert world.nodes[2].raft.epoch == 0
    world.nodes[3].start()
    start_ms = world.time_ms
    world.elected()
    assert world.time_ms - start_ms < 500
    world.nodes[1].start()
    world.run(1000)
    assert world.nodes[1].raft.role_name == "follower"
    assert world.nodes[1].raft.epoch == world.nodes[2].raft.epoch


@pytest.mark.parametrize("seed", range(8))
def test_a_dead_leader_is_replaced_without_waiting(seed: int):
    world = started(static_world([1, 2, 3], seed, observers=(7,)))
    leader = world.elected()
    world.run(3000)
    offset = world.committed(leader, "kept")
    leader.crash(power=False)
    start_ms = world.time_ms
    successor = world.elected()
    assert successor is not leader
    assert world.time_ms - start_ms < 400
    assert successor.raft.high_watermark > offset
    world.run(500)
    assert world.nodes[7].raft.leader_id == successor.id


@pytest.mark.parametrize("seed", range(8))
def test_who_has_not_noticed_a_death_finds_out_when_it_is_asked(seed: int):
    """It waits for its disk just then, and so for no answer of the leader's."""
    world = started(static_world([1, 2, 3], seed))
    leader = world.elected()
    world.run(1000)
    busy = next(node for node in world.nodes.values() if node is not leader)
    busy.flush_ms = (2000, 2000)
    leader.append("slow")
    world.run_until(lambda: bool(busy.pending))
    busy.flush_ms = (1, 4)
    world.run(20)
    leader.crash(power=False)
    others = [node for node in world.nodes.values() if node is not leader]
    world.run_until(lambda: any(node.raft.is_leader for node in others), 250)


def test_a_silent_leader_is_replaced_by_the_timeout():
    """Its machine does not answer either: nobody says that it is gone."""
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(1000)
    others = [node_id for node_id in world.nodes if node_id != leader.id]
    world.cut([leader.id], others)
    start_ms = world.time_ms
    world.run_until(lambda: (new := world.leader()) is not None and new is not leader)
    assert 1400 < world.time_ms - start_ms < 6000


def test_46_an_isolated_voter_disturbs_nobody():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    epoch = leader.raft.epoch
    away = next(node for node in world.nodes.values() if node is not leader)
    world.cut([away.id], [node_id for node_id in world.nodes if node_id != away.id])
    world.run(60_000)
    assert away.raft.epoch == epoch
    world.heal()
    world.run(5000)
    assert world.leader() is leader
    assert leader.raft.epoch == epoch == away.raft.epoch
    assert away.raft.role_name == "follower"


def test_47_a_leader_without_a_majority_resigns():
    world = started(static_world([1, 2, 3], observers=(7,)))
    leader = world.elected()
    world.run(500)
    world.cut([leader.id, 7], [node_id for node_id in world.nodes if node_id not in (leader.id, 7)])
    start_ms = world.time_ms
    lost = leader.append("lost")
    assert lost is not None
    world.run_until(lambda: not leader.raft.is_leader)
    assert world.time_ms - start_ms <= 3000
    assert ("lost", leader.raft.epoch) in leader.heard.news or leader.raft.epoch > 1
    assert leader.append("refused") is None
    world.run_until(lambda: world.leader() is not None)
    world.heal()
    world.run(5000)
    heads = [node.raft.log.log_end_offset for node in world.nodes.values()]
    assert len(set(heads)) == 1
    assert world.leader() is not None
    log = leader.raft.log
    assert b"lost" not in log.read(0, log.log_end_offset, 1 << 20).read()  # type: ignore[union-attr]


def test_48_a_candidate_that_crashed_stands_again_and_votes_for_nobody_else():
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    state = ElectionState(5, -1, ReplicaKey(1))
    node.disk.replace(f"{PATH}/quorum-state", format_quorum_state(state, 0, [1, 2, 3]))
    node.start()
    assert (node.raft.role_name, node.raft.epoch) == ("candidate", 5)
    assert vote_of(node, 2, 5, (0, 0)) == (ErrorCode.NONE, False)
    assert stored(node).voted == ReplicaKey(1)


def test_48_a_leader_that_crashed_does_not_lead_its_epoch_again():
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    state = ElectionState(5, 1, ReplicaKey(1))
    node.disk.replace(f"{PATH}/quorum-state", format_quorum_state(state, 0, [1, 2, 3]))
    node.start()
    world.run(20)
    assert (node.raft.epoch, node.raft.leader_id) == (6, -1)
    assert vote_of(node, 2, 5, (0, 0)) == (ErrorCode.FENCED_LEADER_EPOCH, False)
    assert vote_of(node, 2, 6, (5, 9)) == (ErrorCode.NONE, True)


def test_a_start_believes_the_log_where_the_file_is_behind():
    world = started(static_world([1]))
    world.run(20)
    node = world.nodes[1]
    assert node.raft.is_leader
    node.crash(power=False)
    node.disk.remove(f"{PATH}/quorum-state")
    world.watchers.clear()
    world.checks.clear()
    node.start()
    world.run(20)
    assert node.raft.epoch == 2


def test_a_vote_is_stored_before_it_is_told():
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    node.flush_ms = (50, 50)
    node.start()
    answers: list[Any] = []
    request = vote_request(
        "MkU3OEVBNTcwNTJENDM2Qg",
        ReplicaKey(1),
        ReplicaKey(2, directory(2)),
        3,
        (0, 0),
        is_pre_vote=False,
    )
    node.handle(request, answers.append)
    world.run(40)
    assert answers == []
    assert stored(node).voted is None
    world.run(20)
    assert answers[0].topics[0].partitions[0].vote_granted
    assert stored(node) == ElectionState(3, -1, ReplicaKey(2))


def test_one_vote_an_epoch_and_the_same_one_again():
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    node.start()
    assert vote_of(node, 2, 1, (0, 0)) == (ErrorCode.NONE, True)
    assert vote_of(node, 3, 1, (0, 9)) == (ErrorCode.NONE, False)
    assert vote_of(node, 2, 1, (0, 0)) == (ErrorCode.NONE, True)
    assert vote_of(node, 3, 2, (0, 0)) == (ErrorCode.NONE, True)
    assert node.raft.role_name == "voted"


def test_50_a_longer_log_of_an_older_epoch_loses():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.committed(leader, "a")
    world.run(100)
    follower = next(node for node in world.nodes.values() if node is not leader)
    epoch, end = leader.raft.epoch, follower.raft.log.log_end_offset
    rival = next(one for one in world.nodes if one not in (leader.id, follower.id))
    world.checks.clear()
    assert vote_of(follower, rival, epoch + 1, (epoch - 1, end + 99)) == (ErrorCode.NONE, False)
    assert vote_of(follower, rival, epoch + 2, (epoch, end - 1)) == (ErrorCode.NONE, False)
    assert vote_of(follower, rival, epoch + 3, (epoch, end)) == (ErrorCode.NONE, True)


def test_requests_for_votes_are_checked():
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    node.start()
    assert vote_of(node, 2, 4, (0, 0), is_pre_vote=True) == (ErrorCode.NONE, True)
    assert node.raft.epoch == 4, "an epoch is adopted from either kind"
    refused = [
        (vote_of(node, 2, 3, (0, 0)), ErrorCode.FENCED_LEADER_EPOCH),
        (vote_of(node, 2, 5, (5, 0)), ErrorCode.INVALID_REQUEST),
        (vote_of(node, 2, 5, (6, 0), is_pre_vote=True), ErrorCode.INVALID_REQUEST),
        (vote_of(node, 2, 5, (0, -1)), ErrorCode.INVALID_REQUEST),
        (vote_of(node, -1, 5, (0, 0)), ErrorCode.INVALID_REQUEST),
        (vote_of(node, 2, 5, (0, 0), voter=ReplicaKey(9)), ErrorCode.INVALID_VOTER_KEY),
        (
            vote_of(node, 2, 5, (0, 0), voter=ReplicaKey(1, Uuid(b"another" + bytes(9)))),
            ErrorCode.INVALID_VOTER_KEY,
        ),
        (vote_of(node, 2, 5, (0, 0), cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ]
    for (error, is_granted), expected in refused:
        assert (error, is_granted) == (expected, False)
    assert vote_of(node, 2, 5, (5, 0), is_pre_vote=True) == (ErrorCode.NONE, True)
    empty = asked(node, VoteRequest(cluster_id=None, topics=()))
    assert empty == VoteResponse(error_code=ErrorCode.INVALID_REQUEST, topics=())


def test_who_grants_a_pre_vote():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    followers = [node for node in world.nodes.values() if node is not leader]
    epoch = leader.raft.epoch
    best = epoch, leader.raft.log.log_end_offset

    def would(node: Node) -> bool:
        error, is_granted = vote_of(node, followers[0].id, epoch, best, is_pre_vote=True)
        assert error is ErrorCode.NONE
        return is_granted

    assert not would(leader)
    assert not would(followers[1]), "it fetches from a leader that lives"
    leader.crash(power=False)
    world.run_until(lambda: would(followers[1]), 400)


@pytest.mark.parametrize("role", ["unattached", "prospective", "candidate", "resigned"])
def test_who_has_no_leader_grants_a_pre_vote(role: str):
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    if role == "candidate":
        state = ElectionState(5, -1, ReplicaKey(1))
        node.disk.replace(f"{PATH}/quorum-state", format_quorum_state(state, 0, [1, 2, 3]))
    node.start()
    if role == "prospective":
        world.run_until(lambda: node.raft.role_name == role)
    elif role == "resigned":
        for other in (2, 3):
            world.nodes[other].start()
        world.run_until(lambda: node.raft.is_leader)
        node.raft.resign(world.now)
    assert node.raft.role_name == role
    epoch, last = node.raft.epoch, node.raft._quorum.last
    assert vote_of(node, 2, epoch, last, is_pre_vote=True) == (ErrorCode.NONE, True)
    behind = (last[0], last[1] - 1) if last[1] else None
    if behind is not None:
        assert vote_of(node, 2, epoch, behind, is_pre_vote=True) == (ErrorCode.NONE, False)


def test_51_a_leader_that_stops_hands_over_to_the_best():
    world = started(static_world([1, 2, 3, 4, 5]))
    leader = world.elected()
    world.run(1000)
    others = [node for node in world.nodes.values() if node is not leader]
    best = others[2]
    world.cuts = {(leader.id, node.id) for node in others if node is not best}
    world.cuts |= {(node.id, leader.id) for node in others if node is not best}
    leader.append("only the best has it")
    world.run(200)
    world.cuts = set()
    votes = Votes(world)
    start_ms = world.time_ms
    leader.raft.resign(world.now)
    world.run_until(lambda: (new := world.leader()) is not None and new is not leader)
    assert world.leader() is best
    assert world.time_ms - start_ms < 200
    assert {(candidate, is_pre) for candidate, _, is_pre in votes.asked} == {
        (best.id, True),
        (best.id, False),
    }
    assert leader.raft.has_handed_over


def test_55_who_knows_no_pre_votes_is_asked_for_a_vote():
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    requests: list[Any] = []

    class Old:
        def send(self, to: Any, request: Message, then: Any, now: Any, timeout_ms: int) -> None:
            if isinstance(request, VoteRequest):
                pre_vote = request.topics[0].partitions[0].pre_vote
                requests.append(pre_vote)
                error = ErrorCode.UNSUPPORTED_VERSION
                answer = VoteResponse(error_code=error, topics=()) if pre_vote else None
                world.after(1, lambda: then(answer or PeerFailure.TIMED_OUT, world.now), node)

        def probe(self, *_: object) -> None: ...

    node.start()
    node.raft._quorum.channel = Old()
    world.run(3000)
    assert requests[0] is True
    assert False in requests
    assert stored(node).voted == ReplicaKey(1)
    assert node.raft.role_name == "candidate"


def test_a_lost_election_waits_and_asks_first():
    world = static_world([1, 2, 3])
    node = world.nodes[1]
    state = ElectionState(5, -1, ReplicaKey(1))
    node.disk.replace(f"{PATH}/quorum-state", format_quorum_state(state, 0, [1, 2, 3]))
    node.start()
    world.run(999)
    assert node.raft.role_name == "candidate"
    world.run(1100)
    assert (node.raft.role_name, node.raft.epoch) == ("prospective", 5)


def test_two_leaders_of_one_epoch_are_the_end():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(100)
    quorum = leader.raft._quorum
    rival = quorum.others[0]
    world.checks.clear()
    quorum.adopt(rival, leader.raft.epoch, None, world.now)
    assert leader.heard.failure is not None
    assert "both lead epoch" in leader.heard.failure


def test_nobody_is_believed_who_speaks_of_the_last_epoch_there_can_be():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(100)
    epoch, quorum = leader.raft.epoch, leader.raft._quorum
    for is_pre_vote in (False, True):
        told = vote_of(leader, 2, LAST_EPOCH, (1, 99), is_pre_vote=is_pre_vote)
        assert told == (ErrorCode.INVALID_REQUEST, False)
    greeting = begin_quorum_epoch_request(CLUSTER_ID, leader.key, 2, LAST_EPOCH, [endpoint(2)])
    assert asked(leader, greeting).topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert not quorum.observe(ErrorCode.FENCED_LEADER_EPOCH, -1, LAST_EPOCH, None, world.now)
    assert (leader.raft.epoch, leader.raft.is_leader) == (epoch, True)


def test_after_the_last_epoch_a_node_says_so_and_ends():
    world = static_world([1])
    node = world.nodes[1]
    state = ElectionState(LAST_EPOCH - 1)
    node.disk.replace(f"{PATH}/quorum-state", format_quorum_state(state, 0, [1]))
    node.start()
    world.run(100)
    assert (node.raft.epoch, node.raft.is_leader, node.heard.failure) == (LAST_EPOCH, True, None)
    node.crash(power=False)
    node.start()
    assert node.heard.failure == f"no epoch of the quorum comes after {LAST_EPOCH}"


def test_an_id_below_zero_is_nobody():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(100)
    leader.raft._quorum.adopt(-2, leader.raft.epoch, None, world.now)
    assert leader.heard.failure is None
    leader.raft._quorum.adopt(-2, leader.raft.epoch + 1, None, world.now)
    assert leader.raft.leader_id == -1
