"""What happens to a cluster: rounds of faults, chosen by chance from a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tidelog.testing import Cluster

Say = Callable[[str], object]
SECONDS_MAX = 180.0
"""For a cluster to be as it should."""


class Nemesis:
    """Each round is one kind of trouble, which lasts a while and is over when the round is: every
    node runs and reaches the others. Whether replicas have caught up is not waited for."""

    def __init__(self, cluster: Cluster, rng: random.Random, say: Say) -> None:
        self._cluster = cluster
        self._random = rng
        self._say = say
        self._partitions = 0
        self._topic = ""
        self._faults: list[Callable[[], None]] = []
        self.rounds: dict[str, int] = {}
        """How many of each kind."""

    def aim_at(self, topic: str, partitions: int) -> None:
        """Leaders of this topic are in danger."""
        self._topic, self._partitions = topic, partitions

    def strike(self) -> None:
        """One round. Every kind has its turn before one comes again."""
        if not self._faults:
            self._faults = [
                self.kill,
                self.kill_two,
                self.kill_all,
                self.kill_the_paused,
                self.kill_beside_the_isolated,
                self.stop,
                self.roll,
                self.pause,
                self.pause_two,
                self.isolate,
                self.isolate_two,
                self.flap,
                self.cut,
            ]
            self._random.shuffle(self._faults)
        fault = self._faults.pop()
        name = fault.__name__
        self.rounds[name] = self.rounds.get(name, 0) + 1
        fault()

    # Processes.

    def kill(self) -> None:
        node = self._victim()
        self._kill(node)
        self._wait(3)
        self._start(node)

    def kill_two(self) -> None:
        """One after the other: for a while nothing can be acknowledged."""
        first, second, _ = self._victims()
        self._kill(first)
        self._wait(1)
        self._kill(second)
        self._wait(2)
        nodes = [first, second]
        self._random.shuffle(nodes)
        self._start(*nodes)

    def kill_all(self) -> None:
        nodes = self._victims()
        for node in nodes:
            self._kill(node)
        self._random.shuffle(nodes)
        self._start(*nodes)

    def kill_the_paused(self) -> None:
        node = self._victim()
        self._pause(node)
        self._wait(4)
        self._kill(node)
        self._start(node)

    def kill_beside_the_isolated(self) -> None:
        """A leader alone, and of the others one dies; then the network is back."""
        first, second, _ = self._victims()
        self._isolate(first)
        self._wait(4)
        self._kill(second)
        self._wait(1)
        self._heal()
        self._start(second)

    def stop(self) -> None:
        node = self._victim()
        self._say(f"stop {node}")
        self._cluster.stop(node)
        self._wait(2)
        self._start(node)

    def roll(self) -> None:
        for node in self._victims():
            self._say(f"restart {node}")
            self._cluster.restart(node, timeout=SECONDS_MAX)

    def pause(self) -> None:
        node = self._victim()
        self._pause(node)
        self._wait(5)
        self._resume(node)

    def pause_two(self) -> None:
        first, second, _ = self._victims()
        self._pause(first)
        self._pause(second)
        self._wait(3)
        self._resume(first)
        self._wait(1)
        self._resume(second)

    # The network.

    def isolate(self) -> None:
        self._isolate(self._victim())
        self._wait(6)
        self._heal()

    def isolate_two(self) -> None:
        """Each is alone."""
        first, second, _ = self._victims()
        self._isolate(first)
        self._wait(2)
        self._isolate(second)
        self._wait(4)
        self._heal()

    def flap(self) -> None:
        node = self._victim()
        for _ in range(8):
            self._isolate(node)
            self._wait(0.5)
            self._heal()
            self._wait(0.2)

    def cut(self) -> None:
        for node in self._victims() * 2:
            self._say(f"cut {node}")
            self._cluster.cut(node)
            self._wait(0.5)

    # What they are made of.

    def _victim(self) -> int:
        return self._victims()[0]

    def _victims(self) -> list[int]:
        """All nodes; the first is a leader or the active controller more often than not."""
        nodes = list(self._cluster.nodes)
        self._random.shuffle(nodes)
        chance = self._random.random()
        partition = self._random.randrange(self._partitions)
        if chance < 0.4:
            first = self._cluster.leader(self._topic, partition, timeout=SECONDS_MAX)
        elif chance < 0.7:
            first = self._cluster.controller(timeout=SECONDS_MAX)
        else:
            return nodes
        nodes.remove(first)
        return [first, *nodes]

    def _wait(self, seconds_max: float) -> None:
        """Up to so long, and more often short than long."""
        time.sleep(seconds_max * self._random.random() ** 2)

    def _kill(self, node: int) -> None:
        self._say(f"kill {node}")
        self._cluster.kill(node)

    def _start(self, *nodes: int) -> None:
        self._say(f"start {' '.join(map(str, nodes))}")
        self._cluster.start(*nodes, timeout=SECONDS_MAX)

    def _pause(self, node: int) -> None:
        self._say(f"pause {node}")
        self._cluster.pause(node)

    def _resume(self, node: int) -> None:
        self._say(f"resume {node}")
        self._cluster.resume(node)

    def _isolate(self, node: int) -> None:
        self._say(f"isolate {node}")
        self._cluster.isolate(node)

    def _heal(self) -> None:
        self._say("heal")
        self._cluster.heal()
