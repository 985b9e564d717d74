"""Voters come, move and go, one at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.raft.test_elections import asked, started
from tests.unit.raft.test_replication import followers
from tests.unit.raft.world import (
    CLUSTER_ID,
    Node,
    World,
    address,
    directory,
    dynamic_world,
    endpoint,
    static_world,
)

from tidelog.errors import ErrorCode
from tidelog.raft.types import ReplicaKey
from tidelog.raft.voters import voter_of
from tidelog.types import Uuid
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tidelog.wire.messages.control_records import Endpoint
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from tidelog.wire.messages.update_raft_voter import Listener as UpdatedListener


def add(key: ReplicaKey, **changes: Any) -> AddRaftVoterRequest:
    point = endpoint(key.id)
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=5000,
        voter_id=key.id,
        voter_directory_id=key.directory_id,
        listeners=(Listener(name=point.name, host=point.host, port=point.port),),
    )
    return request.replace(**changes)


def remove(key: ReplicaKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id
    )


def update(node: Node, epoch: int, port: int = 1234, **changes: Any) -> UpdateRaftVoterRequest:
    request = UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=epoch,
        voter_id=node.id,
        voter_directory_id=node.key.directory_id,
        listeners=(UpdatedListener(name="CONTROLLER", host="moved", port=port),),
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    return request.replace(**changes)


def code(node: Node, request: Any, timeout_ms: int = 10_000) -> ErrorCode:
    answers: list[Any] = []
    node.handle(request, answers.append)
    node.world.run_until(lambda: bool(answers), timeout_ms)
    answer = answers[0]
    if hasattr(answer, "error_message") and answer.error_code:
        assert answer.error_message
    return ErrorCode(answer.error_code)


def grown(world: World) -> Node:
    leader = world.elected()
    world.committed(leader, "a")
    world.run(300)
    return leader


def test_a_format_names_the_first_voters_and_the_log_has_them_then():
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    assert leader.raft.kraft_version == 1
    assert leader.raft.voters.ids == (1, 2, 3)
    assert leader.raft.voters_at(3).offset == 2
    piece = leader.raft.log.read(0, 3, 1 << 20)
    assert piece is not None
    assert len(piece) > 200
    node = world.add(11)
    node.start()
    world.run(500)
    assert node.raft.role_name == "observer"
    assert node.raft.voters == leader.raft.voters


def test_a_voter_is_added():
    world = started(dynamic_world([1], others=(2,)))
    leader = grown(world)
    newcomer = world.nodes[2]
    assert newcomer.raft.role_name == "observer"
    assert code(leader, add(newcomer.key)) is ErrorCode.NONE
    assert leader.raft.voters.ids == (1, 2)
    world.run(300)
    assert newcomer.raft.role_name == "follower"
    newcomer.crash(power=False)
    offset = leader.append("now two are needed")
    assert offset is not None
    world.run(1000)
    assert leader.raft.high_watermark <= offset
    newcomer.start()
    world.run(3000)
    assert world.elected().raft.voters.ids == (1, 2)


def test_who_has_led_alone_for_long_leads_on_when_a_voter_is_added():
    """Nobody was to be heard from until then."""
    world = started(dynamic_world([1], others=(2,)))
    leader = grown(world)
    world.run(60_000)
    epoch = leader.raft.epoch
    assert code(leader, add(world.nodes[2].key)) is ErrorCode.NONE
    world.run(10_000)
    assert leader.raft.is_leader
    assert leader.raft.epoch == epoch
    # From now on it is, though.
    world.nodes[2].crash(power=False)
    world.run(10_000)
    assert not leader.raft.is_leader


def test_adding_is_checked():
    world = started(dynamic_world([1, 2, 3], others=(11,)))
    leader = grown(world)
    follower = followers(world, leader)[0]
    key = world.nodes[11].key
    assert code(leader, add(follower.key)) is ErrorCode.DUPLICATE_VOTER
    assert code(follower, add(key)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(leader, add(key, cluster_id="other")) is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert code(leader, add(key, listeners=())) is ErrorCode.INVALID_REQUEST
    assert code(leader, add(follower.key, listeners=())) is ErrorCode.INVALID_REQUEST
    # Of another directory nobody has ever fetched.
    unknown = add(ReplicaKey(11, directory(77)))
    assert code(leader, unknown) is ErrorCode.REQUEST_TIMED_OUT
    world.nodes[11].crash(power=False)
    assert code(leader, add(key)) is ErrorCode.REQUEST_TIMED_OUT, "it does not answer"
    assert leader.raft.voters.ids == (1, 2, 3)
    static = started(static_world([1, 2, 3]))
    assert code(grown(static), add(key)) is ErrorCode.UNSUPPORTED_VERSION


def test_who_does_not_support_the_version_is_not_added(monkeypatch: pytest.MonkeyPatch):
    world = started(dynamic_world([1], others=(2,)))
    leader = grown(world)

    def old(request: Any, now: Any, answer: Any) -> None:
        from tidelog.wire.messages.api_versions import ApiVersionsResponse

        answer(ApiVersionsResponse(error_code=0, api_keys=()))

    monkeypatch.setattr("tests.unit.raft.world.api_versions", old)
    assert code(leader, add(world.nodes[2].key)) is ErrorCode.INVALID_REQUEST


def test_an_answer_need_not_wait_for_the_commit():
    world = started(dynamic_world([1, 2, 3], others=(11,)))
    leader = grown(world)
    for node in followers(world, leader):
        if node.id != 11:
            node.crash(power=False)
    request = add(world.nodes[11].key, ack_when_committed=False)
    assert code(leader, request) is ErrorCode.NONE
    assert leader.raft.voters.ids == (1, 2, 3, 11)
    assert leader.raft.voters_at(1 << 40).offset >= leader.raft.high_watermark


def test_53_one_change_at_a_time_and_a_lost_one_is_undone():
    world = started(dynamic_world([1, 2, 3], others=(11, 12)))
    leader = grown(world)
    others = [node for node in followers(world, leader) if node.id < 11]
    world.cut([leader.id, 11, 12], [node.id for node in others])
    answers: list[Any] = []
    leader.handle(add(world.nodes[11].key), answers.append)
    world.run(200)
    assert leader.raft.voters.ids == (1, 2, 3, 11), "it counts at once"
    assert world.nodes[11].raft.voters.ids == (1, 2, 3, 11)
    assert code(leader, add(world.nodes[12].key), 100) is ErrorCode.REQUEST_TIMED_OUT
    assert code(leader, remove(others[0].key), 100) is ErrorCode.REQUEST_TIMED_OUT
    assert answers == []
    world.run_until(lambda: (new := world.leader()) is not None and new is not leader)
    world.run_until(lambda: bool(answers))
    assert [ErrorCode(one.error_code) for one in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.heal()
    world.run(3000)
    for node in world.nodes.values():
        assert node.raft.voters.ids == (1, 2, 3)


def test_a_change_that_takes_too_long_is_answered():
    world = started(dynamic_world([1, 2, 3], others=(11,)))
    leader = grown(world)
    world.cut([leader.id, 11], [node.id for node in followers(world, leader) if node.id != 11])
    request = add(world.nodes[11].key, timeout_ms=700)
    assert code(leader, request) is ErrorCode.REQUEST_TIMED_OUT
    world.heal()
    world.run(4000)
    assert leader.raft.voters.ids == (1, 2, 3, 11), "it was committed after all"
    assert leader.raft.high_watermark == leader.raft.log.log_end_offset


def test_a_change_that_nobody_waits_for_any_more_still_comes_first():
    world = started(dynamic_world([1, 2, 3], others=(11, 12)))
    leader = grown(world)
    others = [node for node in followers(world, leader) if node.id < 11]
    world.cut([leader.id, 11, 12], [node.id for node in others])
    assert code(leader, add(world.nodes[11].key, timeout_ms=300)) is ErrorCode.REQUEST_TIMED_OUT
    assert leader.raft.voters.ids == (1, 2, 3, 11)
    assert code(leader, add(world.nodes[12].key), 100) is ErrorCode.REQUEST_TIMED_OUT
    assert leader.raft.voters.ids == (1, 2, 3, 11)


def test_nothing_is_changed_before_something_is_committed():
    world = started(dynamic_world([1, 2, 3]))
    world.run_until(lambda: any(node.raft.is_leader for node in world.nodes.values()))
    leader = next(node for node in world.nodes.values() if node.raft.is_leader)
    other = next(node for node in world.nodes.values() if node is not leader)
    answers: list[Any] = []
    leader.handle(remove(other.key), answers.append)
    assert [one.error_code for one in answers] == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_voter_is_removed():
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    gone, other = followers(world, leader)
    assert code(leader, remove(gone.key)) is ErrorCode.NONE
    world.run(300)
    assert gone.raft.role_name == "observer"
    assert leader.raft.voters == other.raft.voters
    assert len(leader.raft.voters) == 2
    wrong = ReplicaKey(other.id, directory(77))
    assert code(leader, remove(wrong)) is ErrorCode.VOTER_NOT_FOUND
    assert code(leader, remove(gone.key)) is ErrorCode.VOTER_NOT_FOUND
    assert code(other, remove(leader.key)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_54_a_leader_removes_itself_and_leads_until_that_is_committed():
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    others = followers(world, leader)
    start_ms = world.time_ms
    assert code(leader, remove(leader.key)) is ErrorCode.NONE
    assert leader.raft.role_name in ("resigned", "observer", "follower")
    world.run_until(lambda: (new := world.leader()) is not None and new is not leader)
    assert world.time_ms - start_ms < 500
    assert world.leader() in others
    world.run(3000)
    assert leader.raft.role_name == "observer"
    assert leader.raft.high_watermark == others[0].raft.high_watermark


def test_54_it_does_not_count_itself():
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    others = followers(world, leader)
    others[1].crash(power=False)
    answers: list[Any] = []
    leader.handle(remove(leader.key), answers.append)
    world.run(500)
    assert answers == [], "one of two is no majority"
    assert leader.raft.is_leader
    others[1].start()
    world.run_until(lambda: bool(answers))


def test_the_last_voter_stays():
    world = started(dynamic_world([1]))
    leader = grown(world)
    assert code(leader, remove(leader.key)) is ErrorCode.INVALID_REQUEST


def test_54_a_wiped_voter_has_no_vote():
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    wiped, other = followers(world, leader)
    wiped.crash(power=True)
    wiped.wipe()
    wiped.start()
    world.run(1000)
    assert wiped.raft.role_name == "observer"
    assert wiped.raft.high_watermark == leader.raft.high_watermark
    other.crash(power=False)
    offset = leader.append("not a majority")
    assert offset is not None
    world.run(1500)
    assert leader.raft.high_watermark <= offset


def test_a_wiped_voter_joins_by_itself():
    world = started(dynamic_world([1, 2, 3], auto_join=True))
    leader = grown(world)
    wiped = followers(world, leader)[0]
    wiped.crash(power=True)
    wiped.wipe()
    wiped.start()
    world.run_until(lambda: leader.raft.voters.ids != (1, 2, 3), 10_000)
    world.run_until(lambda: leader.raft.voters.is_voter(wiped.key), 10_000)
    world.run(500)
    assert wiped.raft.role_name == "follower"
    assert leader.raft.voters.ids == (1, 2, 3)


def test_a_controller_joins_by_itself_only_where_it_may():
    world = started(dynamic_world([1], others=(2, 3)))
    world.nodes[3].crash(power=False)
    world.nodes[3].settings["auto_join"] = True
    world.nodes[3].start()
    leader = grown(world)
    world.run(10_000)
    assert leader.raft.voters.ids == (1, 3)


# Moving.


def test_a_voter_that_moved_is_known_where_it_is():
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    moved = followers(world, leader)[0]
    moved.crash(power=False)
    point = endpoint(moved.id)
    second = Endpoint(name="SECOND", host=point.host, port=1)
    moved.settings["endpoints"] = (point, second)
    moved.start()
    world.run(5000)
    for node in world.nodes.values():
        assert node.raft.voters.voters[moved.id].endpoints == (point, second)


def test_a_leader_that_moved_says_so_itself():
    world = started(dynamic_world([1]))
    leader = grown(world)
    leader.crash(power=False)
    second = Endpoint(name="SECOND", host="h", port=1)
    leader.settings["endpoints"] = (endpoint(1), second)
    leader.start()
    world.run(100)
    assert leader.raft.voters.voters[1].endpoints == (endpoint(1), second)
    end = leader.raft.log.log_end_offset
    leader.crash(power=False)
    leader.start()
    world.run(100)
    assert leader.raft.log.log_end_offset == end + 1, "once is enough"


def test_a_voter_has_an_id_and_a_directory():
    """One that fetches without a directory, as old nodes do, would vote with any disk."""
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    node, epoch = followers(world, leader)[0], leader.raft.epoch
    old = ReplicaKey(11)
    leader.raft._leading.fetched(old, leader.raft.log.log_end_offset, world.now)
    for key in (old, ReplicaKey(-1, directory(11)), ReplicaKey(-1)):
        fields = {"voter_id": key.id, "voter_directory_id": key.directory_id}
        for request in (add(key), remove(key), update(node, epoch, **fields)):
            assert code(leader, request) is ErrorCode.INVALID_REQUEST
            follower = code(node, request)
            assert follower is ErrorCode.NOT_LEADER_OR_FOLLOWER, "that comes first"
    assert leader.raft.voters.ids == (1, 2, 3)


def test_what_is_wrong_at_any_time_is_said_before_what_is_not_possible_now():
    world = started(static_world([1, 2, 3]))
    leader = grown(world)
    key = ReplicaKey(11)
    assert code(leader, add(key)) is ErrorCode.INVALID_REQUEST
    assert code(leader, remove(key)) is ErrorCode.INVALID_REQUEST
    known = ReplicaKey(11, directory(11))
    assert code(leader, add(known)) is ErrorCode.UNSUPPORTED_VERSION
    assert code(leader, remove(known)) is ErrorCode.UNSUPPORTED_VERSION


def test_updates_are_checked():
    world = started(dynamic_world([1, 2, 3]))
    leader = grown(world)
    node = followers(world, leader)[0]
    epoch = leader.raft.epoch
    codes = ErrorCode
    assert code(leader, update(node, epoch - 1)) is codes.FENCED_LEADER_EPOCH
    assert code(leader, update(node, epoch + 1)) is codes.UNKNOWN_LEADER_EPOCH
    assert code(node, update(node, epoch)) is codes.NOT_LEADER_OR_FOLLOWER
    assert code(leader, update(node, epoch, cluster_id="x")) is codes.INCONSISTENT_CLUSTER_ID
    assert code(leader, update(node, epoch, listeners=())) is codes.INVALID_REQUEST
    old = KRaftVersionFeature(min_supported_version=0, max_supported_version=0)
    assert code(leader, update(node, epoch, kraft_version_feature=old)) is codes.INVALID_REQUEST
    for least, most in ((-1, 1), (1, 0), (2, 1)):
        odd = KRaftVersionFeature(min_supported_version=least, max_supported_version=most)
        assert code(leader, update(node, epoch, kraft_version_feature=odd)) is codes.INVALID_REQUEST
    other = Uuid(b"another" + bytes(9))
    assert code(leader, update(node, epoch, voter_directory_id=other)) is codes.VOTER_NOT_FOUND
    assert code(leader, update(node, epoch, voter_id=9)) is codes.VOTER_NOT_FOUND
    end = leader.raft.log.log_end_offset
    answer = asked(leader, update(node, epoch, listeners=(), cluster_id="x"))
    assert answer.current_leader.leader_id == leader.id
    assert answer.current_leader.port == address(leader.id).port
    assert leader.raft.log.log_end_offset == end
    point = endpoint(node.id)
    same = (UpdatedListener(name=point.name, host=point.host, port=point.port),)
    assert code(leader, update(node, epoch, listeners=same)) is codes.NONE
    assert leader.raft.log.log_end_offset == end, "no news"


def test_a_static_quorum_becomes_a_dynamic_one():
    world = started(static_world([1, 2, 3]))
    leader = grown(world)
    raft = leader.raft
    assert raft.upgrade_kraft_version(0, world.now) is ErrorCode.NONE
    assert raft.upgrade_kraft_version(1, world.now) is ErrorCode.INVALID_UPDATE_VERSION
    world.run(4000)
    assert raft.upgrade_kraft_version(2, world.now) is ErrorCode.INVALID_UPDATE_VERSION
    assert raft.upgrade_kraft_version(1, world.now) is ErrorCode.NONE
    world.run(500)
    for node in world.nodes.values():
        assert node.raft.kraft_version == 1
        assert node.raft.voters.key(node.id) == node.key
    assert raft.upgrade_kraft_version(0, world.now) is ErrorCode.INVALID_UPDATE_VERSION
    follower = followers(world, leader)[0]
    refused = follower.raft.upgrade_kraft_version(1, world.now)
    assert refused is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(leader, remove(follower.key)) is ErrorCode.NONE


def test_a_voter_describes_itself_as_it_is():
    voter = voter_of(ReplicaKey(4, directory(4)), [endpoint(4)])
    feature = voter.kraft_version_feature
    assert (feature.min_supported_version, feature.max_supported_version) == (0, 1)
