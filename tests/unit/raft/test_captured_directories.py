"""A node starts on what Apache Kafka's nodes left on their disks."""

from __future__ import annotations

from tests.unit.metadata.captured import DISK, LIFE
from tests.unit.raft.test_elections import started, stored
from tests.unit.raft.world import PATH, Node, World, static_world

from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import SnapshotId, snapshot_name
from tidelog.metadata.snapshot_loading import load_image
from tidelog.raft.election_state import ElectionState
from tidelog.raft.types import Address
from tidelog.slices import finish
from tidelog.types import parse_uuid


def put(node: Node, name: str, captured: str) -> None:
    node.disk.replace(f"{PATH}/{name}", (DISK / captured).read_bytes())


def test_the_log_of_a_static_quorum_goes_on():
    world = static_world([1, 2, 3])
    for node in world.nodes.values():
        put(node, "00000000000000000000.log", LIFE)
        put(node, "quorum-state", "quorum-state.v0.json")
    started(world)
    assert stored(world.nodes[1]) == ElectionState(6, 2, None)
    for node in world.nodes.values():
        assert node.raft.log.log_end_offset == 1020
        assert node.raft.log.leader_epochs.entries() == [(1, 0), (2, 484), (3, 753), (4, 856)]
    leader = world.elected()
    assert leader.raft.epoch == 8, "node 2 led epoch 6, and will not again"
    world.committed(leader, "ours")
    world.run(1000)
    assert {node.raft.high_watermark for node in world.nodes.values()} == {1022}


def test_a_snapshot_of_a_dynamic_quorum_names_its_voters():
    world = World(1)
    node = world.add(7, is_controller=False)
    put(
        node,
        snapshot_name(302, 1),
        "dynamic-quorum.00000000000000000302-0000000001.checkpoint",
    )
    put(node, "quorum-state", "quorum-state.v1.json")
    raft = node.start()
    assert (raft.log.log_start_offset, raft.high_watermark, raft.epoch) == (302, 302, 3)
    assert raft.kraft_version == 1
    assert raft.voters.ids == (1, 3)
    assert raft.leader_id == 1
    assert raft.leader_address == Address("127.0.0.1", 39201)
    snapshot_id = SnapshotId(302, 1)
    image: MetadataImage = finish(load_image(raft.snapshots.file(snapshot_id).read, snapshot_id))
    assert sorted(image.brokers) == [111, 112]


def test_initial_controllers_are_the_first_voters():
    world = World(1)
    node = world.add(2)
    name = "00000000000000000000-0000000000.checkpoint"
    put(node, name, f"initial-controllers.{name}")
    raft = node.start()
    assert raft.kraft_version == 1
    assert raft.voters.ids == (1, 2, 3)
    assert not raft.is_voter, "its directory is another"
    assert raft.snapshots.ids == []
    assert raft.log.log_end_offset == 0


def test_a_standalone_node_elects_itself():
    world = World(1)
    node = world.add(1)
    name = "00000000000000000000-0000000000.checkpoint"
    put(node, name, f"standalone.{name}")
    assert node.start().role_name == "observer", "its directory is another"
    node.crash(power=False)
    node.directory_id = parse_uuid("wW3APNzeTs6xZJCZBUitjw")
    node.start()
    world.run(50)
    assert node.raft.is_leader
    assert node.raft.log.log_end_offset == 3, "LeaderChange, version and voters"
