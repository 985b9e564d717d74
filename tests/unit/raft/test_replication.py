"""How the log gets to all nodes: fetches and their refusals, divergence, the high watermark."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.raft.invariants import Invariants
from tests.unit.raft.test_elections import asked, started, stored
from tests.unit.raft.world import CLUSTER_ID, PATH, Node, World, directory, static_world

from tidelog.env import DiskFull
from tidelog.errors import ErrorCode
from tidelog.raft.election_state import ElectionState
from tidelog.raft.messages import fetch_request
from tidelog.raft.serving import QUIET_MS, QUIET_TURNS, WAIT_MS_MAX
from tidelog.raft.types import ReplicaKey
from tidelog.raft.validation import only_partition
from tidelog.types import METADATA_TOPIC_ID
from tidelog.wire.batch import BatchWalk
from tidelog.wire.declare import Message
from tidelog.wire.messages.fetch import FetchRequest, FetchTopic


def followers(world: World, leader: Node) -> list[Node]:
    return [node for node in world.nodes.values() if node is not leader]


def texts(node: Node) -> list[bytes]:
    """What data batches hold."""
    found = []
    log = node.raft.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, log.log_end_offset, 1 << 20)
        assert piece is not None
        for batch in BatchWalk(piece.read()):
            if not batch.is_control:
                found.append(bytes(batch.payload())[6:-1])
            offset = batch.next_offset
    return found


def fetch(
    epoch: int,
    offset: int,
    last_epoch: int,
    replica: ReplicaKey | None = None,
    high_watermark: int = 1 << 40,
    **changes: Any,
) -> FetchRequest:
    key = replica or ReplicaKey(-1)
    request = fetch_request(CLUSTER_ID, key, epoch, (last_epoch, offset), high_watermark, 1 << 20)
    return request.replace(**changes)


class Fetches:
    """Answers to Fetch, as they leave."""

    def __init__(self, world: World) -> None:
        self.answers: list[tuple[int, int, Any]] = []
        self.world = world
        world.watchers.append(self)

    def answered(self, peer: Node, node: Node, request: Message, response: Message) -> None:
        if isinstance(request, FetchRequest):
            self.answers.append((self.world.time_ms, node.id, only_partition(response)))

    def sent(self, *_: object) -> None: ...
    def started(self, node: Node) -> None: ...
    def crashed(self, node: Node) -> None: ...


def test_all_nodes_get_all_records():
    world = started(static_world([1, 2, 3], observers=(7,)))
    leader = world.elected()
    for number in range(20):
        world.committed(leader, f"record {number}")
    world.run(100)
    assert len(texts(leader)) == 20
    for node in followers(world, leader):
        assert texts(node) == texts(leader)
        assert node.raft.high_watermark == leader.raft.high_watermark == 21
    assert world.nodes[7].raft.role_name == "observer"


def test_56_a_commit_travels_at_once():
    world = started(static_world([1, 2, 3], observers=(7,)))
    leader = world.elected()
    world.run(2000)
    start_ms = world.time_ms
    offset = leader.append("news")
    assert offset is not None
    world.run_until(lambda: all(n.raft.high_watermark > offset for n in world.nodes.values()))
    assert world.time_ms - start_ms < 60


def test_56_an_idle_fetch_waits_half_a_second():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(2000)
    fetches = Fetches(world)
    world.run(3000)
    by_node = [node_id for _, node_id, _ in fetches.answers]
    for node in followers(world, leader):
        assert 4 <= by_node.count(node.id) <= 7
    assert all(partition.records is not None for _, _, partition in fetches.answers)


OLD_CLIENT: int = (1 << 63) - 1
"""The high watermark that who asks in a version before 18 seems to know."""


def poll(leader: Node, high_watermark: int, max_wait_ms: int = 500) -> list[Any]:
    """An observer asks for what comes behind the leader's log: the answer, as soon as there is
    one."""
    raft, answers = leader.raft, []
    last = raft.epoch, raft.log.log_end_offset
    key = ReplicaKey(8, directory(8))
    request = fetch_request(CLUSTER_ID, key, raft.epoch, last, high_watermark, 1 << 20)
    leader.handle(
        request.replace(max_wait_ms=max_wait_ms),
        lambda response: answers.append(only_partition(response)),
    )
    return answers


def test_what_nobody_awaits_is_told_to_one_after_the_other():
    """So that nodes do not write, flush and replay it in the same milliseconds."""
    world = started(static_world([1, 2, 3], observers=(7, 8, 9, 10, 11, 12)))
    leader = world.elected()
    world.run(2000)
    fetches = Fetches(world)
    start_ms = world.time_ms
    offset = leader.append("quiet", is_awaited=False)
    assert offset is not None
    world.run_until(lambda: all(texts(node) == texts(leader) for node in world.nodes.values()))
    told = Counter(ms - start_ms for ms, _, partition in fetches.answers if partition.records)
    assert sum(told.values()) == 8
    assert all(count <= 2 for count in told.values())
    assert min(told) >= QUIET_MS
    assert all(later - sooner >= QUIET_MS for sooner, later in pairwise(sorted(told)))
    assert max(told) <= QUIET_MS * (QUIET_TURNS + 1)
    world.run(100)
    assert all(node.raft.high_watermark == offset + 1 for node in world.nodes.values())


def test_all_have_heard_after_so_many_pauses_however_slow_they_are():
    """Voters do not ask again before they have written it down."""
    world = started(static_world(list(range(1, 10))))
    leader = world.elected()
    world.run(2000)
    for node in followers(world, leader):
        node.flush_ms = (60, 90)
    fetches = Fetches(world)
    start_ms = world.time_ms
    leader.append("quiet", is_awaited=False)
    world.run(50)
    told = [ms - start_ms for ms, _, partition in fetches.answers if partition.records]
    assert len(told) == 8
    assert max(told) <= QUIET_MS * (QUIET_TURNS + 1)


def test_the_commit_of_what_nobody_awaits_is_known_everywhere_before_the_next():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(2000)

    def known() -> set[int]:
        return {node.raft.high_watermark for node in world.nodes.values()}

    for _ in range(20):
        start_ms = world.time_ms
        assert leader.append("quiet", is_awaited=False) is not None
        end_offset = leader.raft.log.log_end_offset
        world.run_until(lambda end_offset=end_offset: known() == {end_offset})
        assert world.time_ms - start_ms < 100
        world.run(400)


def test_what_is_awaited_takes_along_what_was_not():
    world = started(static_world([1, 2, 3], observers=(7,)))
    leader = world.elected()
    world.run(2000)
    fetches = Fetches(world)
    leader.append("quiet", is_awaited=False)
    assert fetches.answers == []
    leader.append("news")
    assert len(fetches.answers) == 3
    world.run_until(lambda: all(texts(node) == texts(leader) for node in world.nodes.values()))
    assert sum(bool(partition.records) for _, _, partition in fetches.answers) == 3


def test_a_leader_with_nobody_left_to_tell_waits_for_nothing():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(2000)
    leader.append("quiet", is_awaited=False)
    assert leader.raft.next_deadline_ms == world.now.monotonic_ms + QUIET_MS
    leader.raft.resign(world.now)
    assert leader.raft.next_deadline_ms > world.now.monotonic_ms + QUIET_MS


def test_an_append_ends_a_long_poll_that_has_just_begun():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(2000)
    answers = poll(leader, leader.raft.high_watermark)
    assert answers == []
    leader.append("news")
    assert len(answers[0].records) > 0


@pytest.mark.parametrize("known", ["all", "nothing is said of it"])
def test_a_commit_alone_ends_a_long_poll(known):
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(2000)
    offset = leader.append("news")
    high_watermark = leader.raft.high_watermark if known == "all" else OLD_CLIENT
    answers = poll(leader, high_watermark)
    assert answers == [], "it is not committed yet"
    start_ms = world.time_ms
    world.run_until(lambda: bool(answers))
    assert (answers[0].high_watermark, len(answers[0].records)) == (offset + 1, 0)
    assert world.time_ms - start_ms < 60


def test_a_long_poll_ends_whatever_is_asked_for():
    world = started(static_world([1]))
    leader = world.elected()
    world.run(2000)
    answers = poll(leader, leader.raft.high_watermark, (1 << 31) - 1)
    world.run(WAIT_MS_MAX - 100)
    assert answers == []
    world.run(200)
    assert len(answers) == 1


def test_a_leader_that_has_committed_nothing_knows_no_high_watermark():
    world = started(static_world([1, 2, 3]))
    fetches = Fetches(world)
    leader = world.elected()
    world.run(100)
    successes = [p for _, _, p in fetches.answers if p.error_code == 0]
    assert successes[0].high_watermark == -1
    assert successes[-1].high_watermark == leader.raft.high_watermark == 1


def test_49_what_an_earlier_epoch_left_is_committed_with_a_record_of_this_one():
    """Raft's figure 8: that a majority has it is not enough."""
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(200)
    others = followers(world, leader)
    world.cuts = {(node.id, leader.id) for node in others}
    old = leader.append("of an earlier epoch")
    assert old is not None
    world.run_until(lambda: all(n.raft.log.recovery_point > old for n in world.nodes.values()))
    leader.crash(power=False)
    world.heal()
    world.run_until(lambda: any(node.raft.is_leader for node in others))
    successor = next(node for node in others if node.raft.is_leader)
    role: Any = successor.raft._quorum.role
    assert role.start_offset == old + 1
    other = next(node for node in others if node is not successor)
    key = ReplicaKey(other.id, other.key.directory_id)
    successor.handle(fetch(successor.raft.epoch, old + 1, 1, key), lambda answer: None)
    assert role.replicas.get(key).end_offset == old + 1
    assert role.high_watermark is None
    world.run_until(lambda: role.high_watermark is not None)
    assert role.high_watermark == old + 2


def test_a_diverging_tail_is_cut_off():
    """Traces, 8.3: the deposed leader and an observer that followed it."""
    world = started(static_world([1, 2, 3], observers=(7,)))
    leader = world.elected()
    kept = world.committed(leader, "kept")
    world.run(200)
    others = [node.id for node in followers(world, leader) if node.id != 7]
    world.cut([leader.id, 7], others)
    for number in range(4):
        leader.append(f"lost {number}")
    world.run(1000)
    assert world.nodes[7].raft.log.log_end_offset == kept + 5
    fetches = Fetches(world)
    world.run_until(lambda: (new := world.leader()) is not None and new is not leader)
    successor = world.leader()
    assert successor is not None
    world.heal()
    world.committed(successor, "new")
    world.run(3000)
    for node in world.nodes.values():
        assert texts(node) == texts(successor)
        assert b"lost" not in b"".join(texts(node))
    diverging = [p.diverging_epoch for _, _, p in fetches.answers if p.diverging_epoch.epoch >= 0]
    assert {(one.epoch, one.end_offset) for one in diverging} == {(1, kept + 1)}


@pytest.mark.parametrize("is_voter", [True, False])
def test_a_truncation_is_on_disk_before_the_log_grows_again(is_voter: bool):
    world = started(static_world([1, 2, 3], observers=(7,)))
    leader = world.elected()
    world.committed(leader, "kept")
    world.run(200)
    kept = leader.raft.log.log_end_offset
    node = leader if is_voter else world.nodes[7]
    world.cut([leader.id, 7], [one.id for one in followers(world, leader) if one.id != 7])
    for number in range(4):
        leader.append(f"lost {number}")
    world.run_until(lambda: (new := world.leader()) is not None and new is not leader)
    assert node.raft.log.log_end_offset == kept + 4
    node.flush_ms = (300, 300)
    world.heal()
    world.run_until(lambda: node.raft.log.log_end_offset == kept)
    world.run(290)
    assert node.raft.log.log_end_offset == kept, "it would be asked for what follows"
    world.run(2000)
    successor = world.leader()
    assert successor is not None
    assert node.raft.log.log_end_offset == successor.raft.log.log_end_offset > kept


def test_a_truncation_during_a_flush_is_not_flushed_by_it():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    for number in range(3):
        world.committed(leader, f"kept {number}")
    world.run(500)
    node = followers(world, leader)[0]
    node.flush_ms = (300, 300)
    world.cut([node.id], [one.id for one in world.nodes.values() if one is not node])
    world.checks.clear()  # nobody truncates what is committed
    quorum = node.raft._quorum
    quorum.truncate_to(2)
    quorum.settle(world.now)
    world.run(100)
    quorum.truncate_to(1)
    world.run(250)
    assert quorum.has_cut
    assert not quorum.is_log_durable
    world.run_until(lambda: not quorum.has_cut, timeout_ms=1000)
    quorum.truncate_to(quorum.log.log_end_offset)
    quorum.settle(world.now)
    assert not quorum.has_cut, "there is nothing to flush, so nothing to wait for"


def test_a_node_is_not_believed_that_would_cut_off_what_is_committed():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.committed(leader, "kept")
    world.run(200)
    node = followers(world, leader)[0]
    world.checks.clear()
    end = node.raft.log.log_end_offset
    node.raft._following._truncate(1, end - 1)
    assert node.raft.log.log_end_offset == end
    assert node.heard.failure is not None
    assert "committed up to" in node.heard.failure


def test_a_voter_says_only_what_it_has_on_disk():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    slow, dead = followers(world, leader)
    dead.crash(power=False)
    slow.flush_ms = (300, 300)
    offset = leader.append("slow")
    assert offset is not None
    start_ms = world.time_ms
    world.run_until(lambda: slow.raft.log.log_end_offset > offset)
    world.run(250)
    assert leader.raft.high_watermark <= offset
    world.run_until(lambda: leader.raft.high_watermark > offset)
    assert world.time_ms - start_ms > 300


def test_the_leaders_own_disk_counts_as_the_others():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    one, other = followers(world, leader)
    other.crash(power=False)
    leader.flush_ms = (300, 300)
    offset = leader.append("slow at the leader")
    assert offset is not None
    world.run_until(lambda: one.raft.log.recovery_point > offset)
    world.run(100)
    assert leader.raft.high_watermark <= offset
    world.run_until(lambda: leader.raft.high_watermark > offset)
    other.start()
    world.run(500)
    offset = leader.append("two others are a majority")
    assert offset is not None
    start_ms = world.time_ms
    world.run_until(lambda: leader.raft.high_watermark > offset)
    assert world.time_ms - start_ms < 100


def test_an_observer_does_not_flush_for_every_record():
    world = started(static_world([1, 2, 3], observers=(7,)))
    leader = world.elected()
    world.run(500)
    observer = world.nodes[7]
    before = observer.flush_count
    for number in range(30):
        world.committed(leader, f"record {number}")
    world.run(200)
    assert observer.raft.high_watermark == leader.raft.high_watermark
    assert observer.flush_count - before <= 2


def test_fetches_are_checked():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.committed(leader, "a")
    world.run(500)
    epoch, end = leader.raft.epoch, leader.raft.log.log_end_offset

    def error(request: FetchRequest, node: Node = leader) -> tuple[int, int]:
        answer = asked(node, request)
        partition = only_partition(answer)
        return answer.error_code, 0 if partition is None else partition.error_code

    good = fetch(epoch, 0, 0)
    assert error(good) == (0, 0)
    assert error(good.replace(cluster_id=None)) == (0, 0)
    wrong_topic = good.topics[0].replace(topic_id=directory(5))
    two = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=good.topics[0].partitions * 2)
    codes = ErrorCode
    cases = [
        (good.replace(cluster_id="other"), (codes.INCONSISTENT_CLUSTER_ID, 0)),
        (good.replace(topics=(wrong_topic,)), (codes.INVALID_REQUEST, 0)),
        (good.replace(topics=()), (codes.INVALID_REQUEST, 0)),
        (good.replace(topics=(two,)), (codes.INVALID_REQUEST, 0)),
        (fetch(epoch - 1, 0, 0), (0, codes.FENCED_LEADER_EPOCH)),
        (fetch(epoch + 1, 0, 0), (0, codes.UNKNOWN_LEADER_EPOCH)),
        (fetch(epoch, -1, 0), (0, codes.INVALID_REQUEST)),
        (fetch(epoch, 0, -1), (0, codes.INVALID_REQUEST)),
        (fetch(epoch, 0, epoch + 1), (0, codes.INVALID_REQUEST)),
    ]
    for request, expected in cases:
        assert error(request) == expected
    follower = followers(world, leader)[0]
    answer = asked(follower, good)
    partition = only_partition(answer)
    assert partition.error_code == codes.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == leader.id
    assert partition.current_leader.leader_epoch == epoch
    assert answer.node_endpoints[0].node_id == leader.id
    beyond = only_partition(asked(leader, fetch(epoch, end + 5, epoch)))
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (epoch, end)


def test_a_fetch_without_a_replica_is_served_and_not_counted():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    role: Any = leader.raft._quorum.role
    before = dict(role.replicas._by_key)
    answer = only_partition(asked(leader, fetch(leader.raft.epoch, 0, 0)))
    assert len(answer.records) > 0
    assert role.replicas._by_key == before


def test_a_long_poll_ends_with_the_leadership():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    answers: list[Any] = []
    end = leader.raft.log.log_end_offset
    request = fetch(leader.raft.epoch, end, leader.raft.epoch, max_wait_ms=100_000)
    leader.handle(request, answers.append)
    world.run(100)
    assert answers == []
    leader.raft.resign(world.now)
    assert only_partition(answers[0]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_long_poll_ends_with_its_time():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    answers: list[Any] = []
    end = leader.raft.log.log_end_offset
    leader.handle(fetch(leader.raft.epoch, end, leader.raft.epoch, max_wait_ms=50), answers.append)
    world.run(45)
    assert answers == []
    world.run(10)
    assert only_partition(answers[0]).error_code == 0
    answers.clear()
    leader.handle(fetch(leader.raft.epoch, end, leader.raft.epoch, max_wait_ms=0), answers.append)
    assert len(answers) == 1


def test_a_full_disk_stops_a_follower_and_no_more():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    full = followers(world, leader)[0]
    full.disk.capacity_bytes = 0
    offset = world.committed(leader, "to the other")
    world.run(3000)
    assert full.raft.log.log_end_offset <= offset
    assert world.leader() is leader
    full.disk.capacity_bytes = 1 << 30
    world.run(3000)
    assert full.raft.log.log_end_offset == leader.raft.log.log_end_offset


def test_a_full_disk_of_the_leader_refuses_appends():
    world = started(static_world([1]))
    leader = world.elected()
    leader.disk.capacity_bytes = 0
    assert leader.append("no room") is None
    leader.disk.capacity_bytes = 1 << 30
    assert world.committed(leader, "room") == 1


def test_a_flush_that_finds_no_room_is_tried_again():
    world = started(static_world([1]))
    leader = world.elected()
    world.run(10)
    leader.flush_errors = [DiskFull("no room"), DiskFull("no room")]
    start_ms = world.time_ms
    world.committed(leader, "a")
    assert 2000 < world.time_ms - start_ms < 2100


def test_a_flush_that_fails_is_the_end():
    world = started(static_world([1]))
    leader = world.elected()
    world.run(10)
    leader.flush_errors = [OSError(5, "broken")]
    offset = leader.append("a")
    assert offset is not None
    with pytest.raises(AssertionError, match="cannot be flushed"):
        world.run(5000)
    assert leader.raft.high_watermark <= offset


def test_records_of_a_later_epoch_are_not_stored():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    node = followers(world, leader)[0]
    end = node.raft.log.log_end_offset
    appending = node.raft._following.appending
    piece = leader.raft.log.read(0, 1, 1 << 20)
    assert piece is not None
    forged = bytearray(piece.read())
    forged[0:8] = end.to_bytes(8, "big")
    forged[12:16] = (9).to_bytes(4, "big")
    appending.begin(memoryview(forged), 0, world.now)
    assert node.raft.log.log_end_offset == end
    forged[12:16] = (1).to_bytes(4, "big")
    forged[-1] ^= 1
    appending.begin(memoryview(forged), 0, world.now)
    assert node.raft.log.log_end_offset == end
    forged[-1] ^= 1
    appending.begin(memoryview(forged), 0, world.now)
    assert node.raft.log.log_end_offset == end + 1


def test_very_many_batches_are_appended_in_many_steps():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(500)
    away, _ = followers(world, leader)
    away.crash(power=False)
    for _ in range(1000):
        leader.append("x")
    world.run(1000)
    away.start()
    sizes = []
    while away.raft.log.log_end_offset < leader.raft.log.log_end_offset:
        before = away.raft.log.log_end_offset
        assert world.step(world.time_ms + 5000)
        sizes.append(away.raft.log.log_end_offset - before)
    assert 0 < max(sizes) <= 64
    world.run(500)
    assert away.raft.high_watermark == leader.raft.high_watermark


@pytest.mark.parametrize("power", [False, True])
def test_a_whole_quorum_that_lost_its_power_goes_on(power: bool):
    world = started(static_world([1, 2, 3], 4))
    leader = world.elected()
    for number in range(30):
        world.committed(leader, f"record {number}")
    acknowledged = texts(leader)
    for node in world.nodes.values():
        node.crash(power=power)
    for node in world.nodes.values():
        node.start()
    start_ms = world.time_ms
    leader = world.elected()
    assert world.time_ms - start_ms < 1500
    assert texts(leader)[: len(acknowledged)] == acknowledged
    assert stored(leader) == ElectionState(leader.raft.epoch, leader.id, ReplicaKey(leader.id))


def test_a_restart_keeps_what_the_log_says():
    world = started(static_world([1, 2, 3]))
    invariants = next(w for w in world.watchers if isinstance(w, Invariants))
    leader = world.elected()
    world.committed(leader, "a")
    world.run(200)
    node = followers(world, leader)[0]
    end = node.raft.log.log_end_offset
    node.crash(power=True)
    assert node.disk.exists(f"{PATH}/quorum-state")
    node.start()
    assert node.raft.role_name == "follower"
    assert node.raft.log.log_end_offset == end
    world.run(500)
    assert node.raft.high_watermark == leader.raft.high_watermark
    assert invariants.elections == 1
