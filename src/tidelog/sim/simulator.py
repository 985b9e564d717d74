"""A whole cluster with its clients in one process: one heap of events, one seed.

A run has three parts. First clients work while a nemesis makes things go wrong. Then all is
healed, and everything must make progress again. At last a reader gets all that there is, and the
checker judges what clients were told against what there is to read.
"""

from __future__ import annotations

import logging
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.sim.checker import check
from tidelog.sim.cluster import CleanStop, Cluster
from tidelog.sim.consumer import Consumer
from tidelog.sim.counters import SOMETIMES, Counters
from tidelog.sim.history import Place
from tidelog.sim.nemesis import Nemesis
from tidelog.sim.network import Network
from tidelog.sim.observer import Observer
from tidelog.sim.plan import FAULTS, Plan
from tidelog.sim.timeline import MS, SECOND, Timeline
from tidelog.sim.trace import Trace
from tidelog.sim.view import node_of, partitions_of
from tidelog.sim.violation import Violation
from tidelog.sim.wholeness import check_same, lacking
from tidelog.sim.words import heard
from tidelog.sim.workload import READER, Workload
from tidelog.types import Offset

RECOVERY_SECONDS_MAX = 20
"""Within so many after the last fault, and then after each other, things work again: a session
lasts 9 s at most, and a follower may lag for 10."""
POLL_US = 100 * MS


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a seed."""

    seed: int
    digest: str
    steps: int
    simulated_us: int
    recovery_us: int
    """From the last fault on, until everything worked."""
    client_requests: int
    """That clients sent, whatever became of them."""
    faults: dict[str, int]
    branches: dict[str, int]
    operations: dict[str, int]
    wanted: tuple[str, ...]
    """Faults and branches that a run of many seeds must reach."""
    violation: Violation | None


class Simulator:
    """One run."""

    def __init__(self, plan: Plan, show: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.timeline = Timeline()
        self.counters = Counters()
        self.trace = Trace(self.timeline, show)
        self.observer = Observer(self.trace, self.counters)
        self.network = Network(self.timeline, random.Random(f"network/{plan.seed}"))
        self.network.base_us = plan.network.base_us
        self.network.jitter_us = plan.network.jitter_us
        self.network.split = plan.network.split
        self.cluster = Cluster(plan, self.network, self.observer)
        self.workload = Workload(plan, self.network, self.observer, self.observer.replicas)
        self.workload.admin.hopeless = self.observer.metadata.hopeless
        self.workload.history.counters = self.counters
        nodes = list(self.cluster.machines.values())
        self.nemesis = Nemesis(
            plan.faults,
            nodes,
            list(self.workload.machines),
            self.network,
            random.Random(f"nemesis/{plan.seed}"),
            self.counters,
            CleanStop,
            self.cluster.is_wipeable,
            self.trace.say,
        )
        self.observer.on_end = self.nemesis.ended
        self._recovery_us = 0

    def run(self) -> Result:
        violation = self._violation()
        if violation is not None:
            self.trace.say(f"violation: {violation}")
        return Result(
            self.plan.seed,
            self.trace.digest,
            self.trace.steps,
            self.timeline.now_us,
            self._recovery_us,
            self.observer.client_requests,
            self.counters.faults,
            self.counters.branches,
            self.workload.history.operations,
            (*FAULTS, *SOMETIMES),
            violation,
        )

    def _violation(self) -> Violation | None:
        level = logging.INFO if self.trace.is_shown else logging.ERROR
        with heard(self.trace.show, level) as self.observer.words:
            try:
                self._run()
            except Violation as found:
                return found
            except Exception:
                return Violation("nothing fails", traceback.format_exc())
        return None

    def _run(self) -> None:
        self.cluster.start()
        self.workload.start()
        self._wait("the topics are made", lambda: self.workload.admin.has_made_topics)
        self.nemesis.start()
        self.timeline.run(self.timeline.now_us + self.plan.seconds * SECOND)
        self.trace.say("healed")
        self.nemesis.heal()
        self.workload.stop()
        healed_us = self.timeline.now_us
        self._wait("all is written", lambda: all(p.is_done for p in self.workload.producers))
        self._wait("replicas agree", self._replicas_agree)
        self._wait(
            "the cluster is whole",
            lambda: lacking(self.cluster) is None,
            lambda: str(lacking(self.cluster)),
        )
        self._recovery_us = self.timeline.now_us - healed_us
        check_same(self.cluster.machines.values(), self.observer.replicas)
        readers = self.workload.start_reader()
        self._wait("all is read", lambda: all(map(self._has_read_all, readers)))
        check(self.workload.history, READER, self._excuse, self._start)

    def _wait(
        self, what: str, is_so: Callable[[], bool], why: Callable[[], str] = lambda: "it is not"
    ) -> None:
        """Liveness: without faults it must come to that."""
        until_us = self.timeline.now_us + RECOVERY_SECONDS_MAX * SECOND
        while not is_so():
            if self.timeline.now_us >= until_us:
                raise Violation(
                    f"progress: {what}",
                    f"not within {RECOVERY_SECONDS_MAX} s without faults: {why()}",
                )
            self.timeline.run(self.timeline.now_us + POLL_US)

    def _replicas_agree(self) -> bool:
        ends: dict[tuple[object, int], tuple[Offset, Offset]] = {}
        for machine in self.cluster.machines.values():
            node = node_of(machine)
            if node is None:
                return False
            for partition in partitions_of(node):
                key = partition.topic_id, partition.index
                end = partition.log.log_end_offset, partition.high_watermark
                if end[0] != end[1] or ends.setdefault(key, end) != end:
                    return False
        return True

    def _has_read_all(self, consumer: Consumer) -> bool:
        return consumer.place is not None and consumer.position >= self._end(consumer.place)

    def _end(self, place: Place) -> Offset:
        return self.observer.replicas.ledgers[place].high_watermark

    def _start(self, place: Place) -> Offset:
        return self.observer.replicas.ledgers[place].start_offset

    def _excuse(self, place: Place, offset: Offset) -> str | None:
        return self.observer.replicas.excuse(place, offset)
