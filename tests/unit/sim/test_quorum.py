"""What a voter's fetch says of its disk, and what its election says of its log."""

from __future__ import annotations

import pytest
from tests.unit.raft.test_elections import started
from tests.unit.raft.test_snapshots import take
from tests.unit.raft.world import CLUSTER_ID, PATH, Node, static_world

from tidelog.log.names import LOG, file_name
from tidelog.raft.messages import fetch_request
from tidelog.sim.counters import Counters
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.plan import host
from tidelog.sim.quorum import QuorumInvariants
from tidelog.sim.violation import Violation
from tidelog.wire.request import encode_request


@pytest.fixture
def node() -> Node:
    """A follower with some records, which are durable."""
    world = started(static_world([1, 2, 3]))
    leader = world.elected()
    for number in range(3):
        world.committed(leader, f"record {number}")
    world.run(500)
    return next(one for one in world.nodes.values() if one is not leader)


def fetched(
    invariants: QuorumInvariants, node: Node, offset: int, last_epoch: int | None = None
) -> None:
    """It asks for what follows."""
    raft = node.raft
    last = (raft.epoch if last_epoch is None else last_epoch, offset)
    request = fetch_request(CLUSTER_ID, node.key, raft.epoch, last, 0, 1 << 20)
    frame = b"".join(encode_request(request, 17, 1, "raft-client-1"))
    invariants.sent(host(node.id), node.disk, -1, frame)


def invariants_of(node: Node) -> QuorumInvariants:
    invariants = QuorumInvariants(Counters())
    invariants.started(host(node.id), node.disk, node.raft)
    return invariants


def test_what_is_not_durable_is_not_acknowledged(node: Node) -> None:
    invariants, end = invariants_of(node), node.raft.log.log_end_offset
    fetched(invariants, node, end)
    node.disk.durable_size = lambda path: 0  # type: ignore[method-assign]
    assert node.disk.exists(f"{PATH}/{file_name(0, LOG)}")
    with pytest.raises(Violation, match="acknowledges what is durable"):
        fetched(invariants, node, end)


def test_the_step_that_asks_may_have_begun_with_a_snapshot(node: Node) -> None:
    """Of its old log, which is gone, nothing need be durable."""
    invariants, end = invariants_of(node), node.raft.log.log_end_offset
    assert take(node).end_offset == end
    node.disk.durable_size = lambda path: 0  # type: ignore[method-assign]
    node.raft.log.truncate_fully_and_start_at(end)
    fetched(invariants, node, end)


def test_a_fetch_that_waited_for_its_connection_speaks_of_what_was_there(node: Node) -> None:
    """In another epoch, of which the log was cut since: it acknowledges nothing that is there."""
    invariants, end = invariants_of(node), node.raft.log.log_end_offset
    node.disk.durable_size = lambda path: 0  # type: ignore[method-assign]
    fetched(invariants, node, end, last_epoch=node.raft.epoch - 1)


def test_an_epoch_is_durable_before_it_is_told(node: Node) -> None:
    invariants, end = invariants_of(node), node.raft.log.log_end_offset
    node.disk.durable_file = lambda path: None  # type: ignore[method-assign]
    with pytest.raises(Violation, match="an epoch is durable before it is told"):
        fetched(invariants, node, end)


def test_an_epoch_that_was_told_is_not_forgotten(node: Node) -> None:
    invariants, quorum = invariants_of(node), node.raft._quorum
    fetched(invariants, node, node.raft.log.log_end_offset)
    told = quorum.state
    quorum.state = told._replace(epoch=told.epoch - 1)
    with pytest.raises(Violation, match="no epoch is forgotten"):
        invariants.started(host(node.id), node.disk, node.raft)
    # With a new disk it is another voter.
    invariants.lost(host(node.id), node.disk, is_new_disk=True)
    invariants.started(host(node.id), node.disk, node.raft)


def test_what_a_voter_said_of_a_disk_that_was_replaced_still_counts(node: Node) -> None:
    invariants, name = invariants_of(node), host(node.id)
    last = invariants.ledger.replica(name).entries[-1]
    node.disk.durable_size = lambda path: 0  # type: ignore[method-assign]
    assert not invariants._is_durable(name, last)
    invariants.lost(name, SimulatedDisk(), is_new_disk=True)
    assert invariants._is_durable(name, last)
    assert not invariants._is_durable(
        name, last._replace(base_offset=last.end_offset, end_offset=last.end_offset + 1)
    )


def test_who_wins_when_others_lead_already_may_lack_what_they_commit(node: Node) -> None:
    invariants, name, epoch = invariants_of(node), host(node.id), node.raft.epoch
    ledger = invariants.ledger
    last = ledger.replica(name).entries[-1]
    later = last._replace(
        base_offset=last.end_offset, end_offset=last.end_offset + 1, epoch=epoch + 1
    )
    ledger.committed.entries[:] = [*ledger.replica(name).entries, later]
    invariants._leaders = {epoch: node.id, epoch + 1: 9}
    invariants._begin(name, epoch)
    invariants._leaders = {epoch: node.id}
    with pytest.raises(Violation, match="leader completeness"):
        invariants._begin(name, epoch)
