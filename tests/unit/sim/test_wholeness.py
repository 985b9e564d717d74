"""What keeps a cluster from being whole, and replicas from being the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tidelog.log.names import LOG
from tidelog.sim.plan import make_plan
from tidelog.sim.simulator import Simulator
from tidelog.sim.view import metadata_of, node_of, partitions_of
from tidelog.sim.violation import Violation
from tidelog.sim.wholeness import check_same, lacking


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    """After a short run, all of whose faults are healed."""
    done = Simulator(make_plan(1, seconds=1))
    assert done.run().violation is None
    return done


@pytest.fixture(autouse=True)
def whole(simulator: Simulator) -> Iterator[None]:
    """Each test leaves it as it was."""
    settle(simulator)
    yield
    settle(simulator)


def settle(simulator: Simulator) -> None:
    for machine in simulator.cluster.machines.values():
        if not machine.is_running:
            machine.start()
    simulator._wait("the cluster is whole", lambda: lacking(simulator.cluster) is None)
    check_same(simulator.cluster.machines.values(), simulator.observer.replicas)


def test_a_dead_node_is_missed_and_then_its_replicas(simulator: Simulator) -> None:
    machine = simulator.cluster.machines[2]
    machine.kill()
    assert lacking(simulator.cluster) == "node 2 is down"
    machine.start()
    assert lacking(simulator.cluster) is not None
    simulator._wait("a leader", lambda: "node 2" not in str(lacking(simulator.cluster)))
    assert lacking(simulator.cluster) == "broker 2 is not in service"
    in_service = "broker 2 is not in service"
    simulator._wait("its broker", lambda: lacking(simulator.cluster) != in_service)
    assert "isr=" in str(lacking(simulator.cluster))


def test_a_change_that_nobody_answers_is_missed(simulator: Simulator) -> None:
    leader = next(
        partition
        for machine in simulator.cluster.machines.values()
        for partition in partitions_of(node_of(machine))  # type: ignore[arg-type]
        if partition.is_leader and len(partition.isr) == 3
    )
    leader.propose(leader.isr[:2])
    assert "waits for the ISR" in str(lacking(simulator.cluster))
    assert leader.followers is not None
    leader.followers.commit(leader.isr)


def test_other_bytes_are_found(simulator: Simulator) -> None:
    machine = simulator.cluster.machines[1]
    path = next(one for one in machine.disk.paths() if "ledger" in one and one.endswith(LOG))
    content = machine.disk.content(path)
    assert isinstance(content, bytearray)
    content[70] ^= 1
    with pytest.raises(Violation, match="replicas are the same bytes"):
        check_same(simulator.cluster.machines.values(), simulator.observer.replicas)
    content[70] ^= 1


def test_other_metadata_is_found(simulator: Simulator) -> None:
    node = node_of(simulator.cluster.machines[1])
    assert node is not None
    metadata = metadata_of(node)
    image = metadata.image
    metadata.image = replace(image, next_producer_id=image.next_producer_id + 1)
    with pytest.raises(Violation, match="nodes agree on the metadata"):
        check_same(simulator.cluster.machines.values(), simulator.observer.replicas)
    metadata.image = image
