"""Nodes on simulated machines, as a plan wants them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tidelog.config.broker import BrokerConfig
from tidelog.loading import load_node, stop_node
from tidelog.metadata.format import METADATA_DIRECTORY, formatted_directory, random_uuid, voter
from tidelog.runtime.pace import Pace
from tidelog.sim.machine import STOPPED, Boot, Machine, Watch
from tidelog.sim.network import Network
from tidelog.sim.plan import CLUSTER_ID, CONTROLLER_PORT, Plan, host
from tidelog.sim.timeline import MS, SECOND, Action, Clock
from tidelog.sim.view import metadata_of, node_of
from tidelog.wire.messages.control_records import Voter

DATA = "data"
POLL_US = 20 * MS
LEAVE_US_MAX = 10 * SECOND


class Cluster:
    """The machines of nodes, by the nodes' ids."""

    def __init__(self, plan: Plan, network: Network, watch: Watch) -> None:
        self.plan = plan
        self._rng = random.Random(f"cluster/{plan.seed}")
        self._directory_ids = {voter: random_uuid(self._rng) for voter in plan.voters}
        """Of the voters' first disks: a dynamic quorum knows them before it starts."""
        self.machines: dict[int, Machine] = {}
        for node_id in plan.nodes:
            clock = Clock(
                network.timeline,
                drift_ppm=self._rng.randint(-plan.drift_ppm_max, plan.drift_ppm_max),
                wall_skew_ms=self._rng.randint(-plan.wall_skew_ms_max, plan.wall_skew_ms_max),
            )
            rng = random.Random(f"machine/{plan.seed}/{node_id}")
            name = host(node_id)
            self.machines[node_id] = Machine(name, network, clock, rng, watch, self._boot)

    def start(self) -> None:
        for machine in self.machines.values():
            machine.start()

    def node_id(self, machine: Machine) -> int:
        return int(machine.name.removeprefix("node"))

    def is_wipeable(self, machine: Machine) -> bool:
        """A static voter with another disk would be one that forgot its votes. Of a dynamic
        quorum only a minority may be lost: all that were replaced before are voters again."""
        if self.node_id(machine) not in self.plan.voters:
            return True
        return self.plan.is_dynamic and self._is_whole()

    def _is_whole(self) -> bool:
        """Whether all voters run, are voters with the disks that they have, and know it."""
        nodes = [node_of(self.machines[voter_id]) for voter_id in self.plan.voters]
        rafts = [metadata_of(node).raft for node in nodes if node is not None]
        if len(rafts) < len(nodes):
            return False
        return all(raft.is_voter and raft.voters == rafts[0].voters for raft in rafts)

    def _boot(self, machine: Machine) -> Boot:
        node_id = self.node_id(machine)
        config = BrokerConfig.from_properties(self.plan.node_properties(node_id))
        if not machine.disk.exists(f"{DATA}/meta.properties"):
            self._format(machine, node_id)
        rng = random.Random(f"node/{self.plan.seed}/{node_id}/{machine.lives}")
        node = load_node(config, machine.disk, rng, machine.clock.now())
        if self.plan.fast_steps is not None:
            node.has_turns, node.pace = True, Pace(self.plan.fast_steps)
        ports = {endpoint.port: endpoint.name for endpoint in config.bound_endpoints}
        of_brokers = {p: name for p, name in ports.items() if name not in config.controller_names}
        of_controllers = {p: name for p, name in ports.items() if p not in of_brokers}
        # As server/run.py does: before that a broker would tell that topics do not exist.
        return Boot(node, of_controllers, of_brokers, lambda: node.broker.lifecycle.is_adopted)

    def _format(self, machine: Machine, node_id: int) -> None:
        """As `kafka-storage format` does before the first start. A second disk of a voter does
        not know the quorum: it is to join it."""
        is_first = machine.lives == 1
        directory_id = self._directory_ids.get(node_id) if is_first else None
        files = formatted_directory(
            CLUSTER_ID,
            node_id,
            directory_id or random_uuid(machine.rng),
            machine.clock.now().wall_ms,
            initial_voters=self._initial_voters() if is_first and self.plan.is_dynamic else (),
        )
        disk = machine.disk
        disk.make_directory(f"{DATA}/{METADATA_DIRECTORY}")
        for name, content in files.items():
            disk.replace(f"{DATA}/{name}", content)

    def _initial_voters(self) -> list[Voter]:
        return [
            voter(
                node_id, self._directory_ids[node_id], "CONTROLLER", host(node_id), CONTROLLER_PORT
            )
            for node_id in self.plan.voters
        ]


class CleanStop:
    """As after a SIGTERM: hand over, then stop; by and by, as a real shell does."""

    def __init__(self, machine: Machine) -> None:
        node, process = node_of(machine), machine.process
        assert node is not None
        assert process is not None
        self._machine, self._node, self._process = machine, node, process
        self._timeline = machine.network.timeline
        self._deadline_us = self._timeline.now_us + LEAVE_US_MAX
        process.happen(partial(process.ask, node.leave))
        self._wait(lambda: node.has_left, self._resign)

    def _wait(self, is_so: Callable[[], bool], then: Action) -> None:
        def look() -> None:
            if is_so() or self._timeline.now_us >= self._deadline_us:
                then()
            else:
                self._wait(is_so, then)

        self._timeline.after(POLL_US, partial(self._process.happen, look))

    def _resign(self) -> None:
        self._process.ask(self._node.resign)
        self._wait(lambda: self._node.has_resigned, self._stop)

    def _stop(self) -> None:
        self._process.ask(self._node.stop)
        self._timeline.after(POLL_US, partial(self._process.happen, self._end))

    def _end(self) -> None:
        is_clean = stop_node(self._node, self._machine.clock.now())
        self._machine.kill(STOPPED if is_clean else "stopped, though not cleanly")
