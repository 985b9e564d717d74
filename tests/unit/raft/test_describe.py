"""DescribeQuorum."""

from __future__ import annotations

from typing import Any

from tests.unit.raft.test_elections import asked, started
from tests.unit.raft.test_replication import followers
from tests.unit.raft.world import Node, address, directory, dynamic_world, static_world

from tidelog.errors import ErrorCode
from tidelog.raft.progress import OBSERVER_SESSION_MS
from tidelog.types import ZERO_UUID
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)

REQUEST = DescribeQuorumRequest(
    topics=(
        TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),)),
    )
)


def described(node: Node) -> Any:
    return asked(node, REQUEST)


def test_a_leader_tells_how_far_each_has_come():
    world = started(dynamic_world([1, 2, 3]))
    world.add(7, is_controller=False).start()
    leader = world.elected()
    world.committed(leader, "a")
    world.run(2000)
    dead = followers(world, leader)[0]
    dead.crash(power=False)
    behind = world.now.wall_ms
    offset = world.committed(leader, "b")
    world.run(200)
    answer = described(leader)
    (partition,) = answer.topics[0].partitions
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (leader.id, leader.raft.epoch)
    assert partition.high_watermark == offset + 1
    voters = {one.replica_id: one for one in partition.current_voters}
    assert list(voters) == [1, 2, 3]
    assert voters[2].replica_directory_id == directory(2)
    assert voters[leader.id].log_end_offset == offset + 1
    assert voters[leader.id].last_fetch_timestamp == world.now.wall_ms
    assert voters[dead.id].log_end_offset == offset
    assert behind - 600 <= voters[dead.id].last_fetch_timestamp <= behind
    assert behind - 600 <= voters[dead.id].last_caught_up_timestamp <= behind
    (observer,) = partition.observers
    assert (observer.replica_id, observer.log_end_offset) == (7, offset + 1)
    nodes = {node.node_id: node.listeners for node in answer.nodes}
    assert list(nodes) == [1, 2, 3]
    assert (nodes[2][0].host, nodes[2][0].port) == address(2)
    world.nodes[7].crash(power=False)
    world.run(OBSERVER_SESSION_MS + 1000)
    leader = world.elected()
    assert described(leader).topics[0].partitions[0].observers == ()


def test_before_a_commit_little_is_known():
    world = started(static_world([1, 2, 3]))
    world.run_until(lambda: any(node.raft.is_leader for node in world.nodes.values()))
    leader = next(node for node in world.nodes.values() if node.raft.is_leader)
    answers: list[Any] = []
    leader.handle(REQUEST, answers.append)
    (partition,) = answers[0].topics[0].partitions
    assert partition.high_watermark == -1
    other = next(one for one in partition.current_voters if one.replica_id != leader.id)
    assert (other.log_end_offset, other.last_fetch_timestamp) == (-1, -1)
    assert other.replica_directory_id == ZERO_UUID


def test_others_say_that_they_do_not_lead():
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    world.run(300)
    (partition,) = described(followers(world, leader)[0]).topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.leader_id == leader.id


def test_it_is_about_the_metadata_alone():
    world = started(static_world([1]))
    leader = world.elected()
    topic = TopicData(topic_name="other", partitions=(PartitionData(partition_index=0),))
    answer = asked(leader, DescribeQuorumRequest(topics=(topic,)))
    (refused,) = answer.topics[0].partitions
    assert (answer.error_code, answer.topics[0].topic_name) == (ErrorCode.NONE, "other")
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
