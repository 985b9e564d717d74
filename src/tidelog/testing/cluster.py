"""A cluster of real nodes for a test: processes to kill, and a network to cut."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidelog.client import ClientError
from tidelog.testing.layout import PORTS_A_NODE, Layout, OtherData, known_cluster_id
from tidelog.testing.observer import Observer
from tidelog.testing.ports import BLOCK, Ports
from tidelog.testing.processes import NurseryFailed, NurseryProcess, has_ended

NODES_MAX = BLOCK // PORTS_A_NODE
SECONDS_MAX = 60.0
"""What waiting may take, unless it is told otherwise."""
LOG_LINES = 20
NOT_STARTED = "the cluster is not started: use it in a with block"
LOG_PREFIX = re.compile(r"^\S+ \S+ [A-Z]+ +\S+ ")


class ClusterError(Exception):
    """What cannot be done, and why. What does not happen in time is a TimeoutError."""


class State(Enum):
    """Of a node."""

    RUNNING = "running"
    PAUSED = "paused"
    DOWN = "down"


class Cluster:
    """Nodes 1 to N on this machine, each a broker and a controller in a process of its own.

    `configs` are broker configs under Kafka's names, the same for every node. Without a `data_dir`
    the data is temporary. Threads may share a cluster that one of them starts and closes.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        configs: Mapping[str, str] | None = None,
        data_dir: Path | str | None = None,
    ) -> None:
        if sys.platform != "linux":
            raise ClusterError(f"a cluster needs Linux, and this is {sys.platform}")
        if not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
            raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {nodes!r}")
        self.nodes = tuple(range(1, nodes + 1))
        self._configs = {name: str(value) for name, value in (configs or {}).items()}
        self._data_dir = data_dir
        self._directory: Path | None = None
        self._ports: Ports | None = None
        self._states = dict.fromkeys(self.nodes, State.DOWN)
        self._isolated: frozenset[int] = frozenset()
        self._process_ids: dict[int, int] = {}
        self._nursery: NurseryProcess | None = None
        self._lock = threading.RLock()
        """For the nursery, and for states: what it says of a node is noted before that changes.
        Never held while somebody waits for a node."""

    # The whole.

    @property
    def bootstrap_servers(self) -> str:
        """Of all nodes, running or not, for a client's configuration."""
        return ",".join(self.address(node) for node in self.nodes)

    def address(self, node: int) -> str:
        """Where clients find one node, isolated or not: `127.0.0.1:PORT`."""
        self._require(node, *State)
        return self._layout.address(node)

    @property
    def directory(self) -> Path:
        """Where the data and the logs are, or were."""
        if self._directory is None:
            raise ClusterError(NOT_STARTED)
        return self._directory

    def __enter__(self) -> Self:
        if self._nursery is not None:
            raise ClusterError("the cluster is started already")
        try:
            self._prepare()
            if len(self.nodes) > 1:
                log = str(self.directory / "proxy.log")
                self._tell("proxy", routes=self._layout.routes, log=log)
            self.start(*self.nodes)
        except BaseException:
            self.close()
            raise
        return self

    def _prepare(self) -> None:
        """Temporary data is the nursery's: that one ends after all others, however they end."""
        try:
            self._ports = Ports(len(self.nodes) * PORTS_A_NODE)
            self._layout = Layout(len(self.nodes), self._ports.numbers)
            for name in filter(self._layout.owns, self._configs):
                raise ClusterError(f"config {name}: the cluster sets it itself")
            self._nursery = NurseryProcess()
            self._directory = Path(self._data_dir or self._tell("make_directory"))
            self._directory.mkdir(parents=True, exist_ok=True)
            self._cluster_id = known_cluster_id(self._directory, len(self.nodes))
        except (OSError, OtherData) as error:
            raise ClusterError(str(error)) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill every node, and remove temporary data."""
        with self._lock:
            nursery, self._nursery = self._nursery, None
            ports, self._ports = self._ports, None
            try:
                if nursery is not None:
                    nursery.close()
            finally:
                if ports is not None:
                    ports.release()
            self._states = dict.fromkeys(self.nodes, State.DOWN)
            self._isolated = frozenset()

    # Processes.

    @property
    def down(self) -> tuple[int, ...]:
        """The nodes that are killed or stopped, or have ended by themselves."""
        self._look_who_ended()
        return tuple(node for node in self.nodes if self._states[node] is State.DOWN)

    def start(self, *nodes: int, timeout: float = SECONDS_MAX) -> None:
        """Start nodes that are down, and wait until each is in service."""
        with self._lock:
            for node in self._all(nodes, State.DOWN):
                properties = self._layout.properties(node, self.directory, self._configs)
                self._process_ids[node] = self._launch(node, properties)
                self._states[node] = State.RUNNING
        self._wait_until_serving(set(nodes), timeout)

    def stop(self, *nodes: int, timeout: float = SECONDS_MAX) -> None:
        """SIGTERM: each node hands over what it leads, stops cleanly, and is gone."""
        self._end(nodes, signal.SIGTERM, timeout, State.RUNNING)

    def kill(self, *nodes: int, timeout: float = SECONDS_MAX) -> None:
        """kill -9: the processes are gone, with all that they had not written."""
        self._end(nodes, signal.SIGKILL, timeout, State.RUNNING, State.PAUSED)

    def restart(self, node: int, *, timeout: float = SECONDS_MAX) -> None:
        """Stop the node, unless it is down, and start it."""
        deadline = time.monotonic() + timeout
        if self._known(node) not in self.down:
            self.stop(node, timeout=timeout)
        self.start(node, timeout=max(0.0, deadline - time.monotonic()))

    def pause(self, *nodes: int) -> None:
        """SIGSTOP: the processes stand still, their connections stay open. As a long pause of
        a garbage collector, or a virtual machine that is moved."""
        self._turn(nodes, signal.SIGSTOP, State.RUNNING, State.PAUSED)

    def resume(self, *nodes: int) -> None:
        """SIGCONT, after a pause."""
        self._turn(nodes, signal.SIGCONT, State.PAUSED, State.RUNNING)

    def _turn(self, nodes: Collection[int], number: signal.Signals, old: State, new: State) -> None:
        with self._lock:
            for node in self._all(nodes, old):
                self._signal(node, number)
                self._states[node] = new

    def _end(
        self, nodes: Collection[int], number: signal.Signals, timeout: float, *states: State
    ) -> None:
        """Signal all, then wait for all. One that does not end in time is what it was before."""
        deadline = time.monotonic() + timeout
        ends: dict[int, tuple[int, int]] = {}
        with ExitStack() as opened:
            with self._lock:
                for node in self._all(nodes, *states):
                    self._signal(node, number)
                    process_id = self._process_ids[node]
                    ends[node] = process_id, os.pidfd_open(process_id)
                    opened.callback(os.close, ends[node][1])
            ended = [node for node, (_, end) in ends.items() if has_ended(end, deadline)]
        with self._lock:
            for node in ended:
                # Or another thread has started the next one.
                if self._process_ids[node] == ends[node][0]:
                    self._bury(node)
                    self._states[node] = State.DOWN
        if late := [node for node in ends if node not in ended]:
            advice = f"use kill({', '.join(map(str, late))})"
            if number is signal.SIGKILL:
                advice = "a process outlives it while the system waits for a disk, say"
            raise self._too_late(late, f"end within {round(timeout, 1)} s of {number.name}", advice)

    # What a node runs in.

    def _launch(self, node: int, properties: Mapping[str, str]) -> int:
        """The id of the process that begins to start."""
        process_id: int = self._tell(
            "start",
            node=node,
            properties=properties,
            cluster_id=self._cluster_id,
            log=str(self.log(node)),
        )
        return process_id

    def _bury(self, node: int) -> None:
        """Its process has ended; take notice."""
        self._tell("wait", node=node)

    def _look_who_ended(self) -> dict[int, int]:
        """A node may end without us; its process id may be another's then."""
        with self._lock:
            ended = {} if self._nursery is None else self._ended()
            for node in ended:
                self._states[node] = State.DOWN
            return ended

    def _ended(self) -> dict[int, int]:
        """Nodes that ended, and their exit codes."""
        return {int(node): code for node, code in self._tell("ended").items()}

    # The network.

    def isolate(self, node: int) -> None:
        """Nothing passes between this node and the others any more, in neither direction; clients
        still reach it. Connections stand still, as if a cable were out."""
        self._require_others(node)
        with self._lock:
            self._set_isolated(self._isolated | {node})

    def cut(self, node: int) -> None:
        """Break the connections between this node and the others, with what is under way on them,
        as a firewall that restarts does. They can connect again at once."""
        self._require_others(node)
        self._tell("network", change="cut", nodes=[node])

    def heal(self) -> None:
        """Everything passes again."""
        self._set_isolated(frozenset())

    def _set_isolated(self, nodes: frozenset[int]) -> None:
        with self._lock:
            if len(self.nodes) > 1:
                self._tell("network", change="isolate", nodes=sorted(nodes))
            self._isolated = nodes

    def _require_others(self, node: int) -> None:
        self._require(node, *State)
        if len(self.nodes) == 1:
            raise ClusterError("a node alone has no connections to others")

    # What it looks like.

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic, and wait until every replica is in sync. By default there are three
        replicas, or as many as there are nodes."""
        factor = min(3, len(self.nodes)) if replication_factor is None else replication_factor
        try:
            given = {name: str(value) for name, value in (configs or {}).items()}
            self._observer().create_topic(topic, partitions, factor, given)
        except ClientError as error:
            raise ClusterError(str(error)) from None
        self.wait_isr(topic)

    def leader(self, topic: str, partition: int = 0, *, timeout: float = SECONDS_MAX) -> int:
        """The node that leads a partition, as soon as one does that is not down."""
        return self._observer().leader(topic, partition, self.down, timeout)

    def controller(self, *, timeout: float = SECONDS_MAX) -> int:
        """The node that is the active controller, as soon as one is."""
        return self._observer().controller(timeout)

    def isr(self, topic: str, partition: int = 0, *, timeout: float = SECONDS_MAX) -> set[int]:
        """The nodes that are in sync, as their leader knows."""
        leader = self.leader(topic, partition, timeout=timeout)
        return Observer([self.address(leader)]).isr(topic, partition, timeout)

    def wait_isr(
        self,
        topic: str,
        partition: int | None = None,
        isr: Collection[int] | None = None,
        *,
        timeout: float = SECONDS_MAX,
    ) -> None:
        """Until the in-sync replicas are these, or all; of a partition, or of all of the topic."""
        if isinstance(isr, int):
            raise TypeError(f"isr is a collection of nodes, such as {{{isr}}}, not {isr}")
        self._observer().wait_isr(topic, partition, isr, timeout)

    def log(self, node: int) -> Path:
        """What the node has logged."""
        return self.directory / f"node-{self._known(node)}.log"

    def _observer(self) -> Observer:
        """Asks nodes that can be expected to know: an isolated one remembers old times."""
        self._look_who_ended()
        running = [node for node in self.nodes if self._states[node] is State.RUNNING]
        well = [node for node in running if node not in self._isolated]
        if not running:
            raise ClusterError("no node is running")
        return Observer([self.address(node) for node in well or running])

    # Within.

    def _wait_until_serving(self, wanted: set[int], timeout: float) -> None:
        """Each says so itself: others may remember an earlier life of it."""
        deadline = time.monotonic() + timeout
        own = {node: Observer([self.address(node)]) for node in wanted}
        while not all(observer.are_serving({node}) for node, observer in own.items()):
            ended = self._look_who_ended()
            for node in sorted(wanted & ended.keys()):
                raise ClusterError(f"node {node} ended with {ended[node]}: {self.last_line(node)}")
            if time.monotonic() > deadline:
                raise self._too_late(sorted(wanted), f"serve within {round(timeout, 1)} s")

    def _too_late(self, nodes: Collection[int], what: str, *advice: str) -> TimeoutError:
        tails = [f"node {node}: {self.last_line(node)}" for node in nodes]
        listed = ", ".join(map(str, nodes))
        return TimeoutError(f"node {listed} did not {what}: {'; '.join([*tails, *advice])}")

    def last_line(self, node: int) -> str:
        """What a node said last, without time, level and logger."""
        lines = self.tail(node)
        return LOG_PREFIX.sub("", lines[-1]) if lines else "it said nothing"

    def tail(self, node: int, lines: int = LOG_LINES) -> list[str]:
        """The last lines of a node's log."""
        try:
            return self.log(node).read_text("utf-8", "replace").splitlines()[-lines:]
        except OSError:
            return []

    def _tell(self, do: str, **arguments: object) -> Any:
        with self._lock:
            if self._nursery is None:
                raise ClusterError(NOT_STARTED)
            try:
                return self._nursery.tell(do, **arguments)
            except NurseryFailed as error:
                raise ClusterError(str(error)) from None

    def _signal(self, node: int, number: signal.Signals) -> None:
        try:
            os.kill(self._process_ids[node], number)
        except ProcessLookupError:
            raise ClusterError(f"node {node} has ended: {self.last_line(node)}") from None

    def _known(self, node: int) -> int:
        if node not in self._states:
            raise ValueError(f"there is no node {node!r}: the nodes are 1 to {len(self.nodes)}")
        return node

    def _all(self, nodes: Collection[int], *states: State) -> list[int]:
        """Each once; nothing is done to any if one is in another state."""
        for node in nodes:
            self._require(node, *states)
        return list(dict.fromkeys(nodes))

    def _require(self, node: int, *states: State) -> None:
        if self._nursery is None:
            raise ClusterError(NOT_STARTED)
        self._look_who_ended()
        if self._states[self._known(node)] not in states:
            raise ClusterError(f"node {node} is {self._states[node].value}")
