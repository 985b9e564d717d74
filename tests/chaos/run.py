"""A cluster, a load and a nemesis, in turns: each has its own topic, whose history is judged when
the turn is over, and then forgotten. So a run can be as long as one likes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.chaos.load import Load, read_all
from tests.chaos.nemesis import SECONDS_MAX, Nemesis
from tests.chaos.replicas import differences, out_of_turn
from tidelog.sim.checker import check
from tidelog.sim.violation import Violation
from tidelog.testing import Cluster

PARTITIONS = 6
TURN_SECONDS = 60.0
"""Of trouble, before the history is judged."""
COMPLAINTS_MAX = 20
"""More of them say nothing new."""
CONFIGS = {
    "min.insync.replicas": "2",
    # Kafka's defaults wait so long that a round would be nothing but waiting.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    # Small files, so that there are many to recover, to truncate and to load snapshots from.
    "log.segment.bytes": "1048576",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
}
ALL_SECONDS = 180.0
"""A run of so long has time for every kind of trouble."""
KINDS = (("kill",), ("pause",), ("stop", "roll"), ("isolate", "flap"), ("cut",))
"""What the names of rounds begin with: of each kind one is enough."""
Say = Callable[[str], object]


class Run:
    """All turns of one run."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        say: Say,
        configs: Mapping[str, str] | None = None,
        kind: Callable[..., Cluster] = Cluster,
    ) -> None:
        self._directory = directory
        self._seed = seed
        self._say = say
        self._kind = kind
        self._configs = {**CONFIGS, **(configs or {})}
        self.rounds: dict[str, int] = {}
        self.records = 0
        """Acknowledged ones."""

    def go(self, seconds: float, turn_seconds: float = TURN_SECONDS) -> list[str]:
        """Go on for so long; what went wrong in the first turn in which something did."""
        rng = random.Random(self._seed)
        turn = 0
        with self._kind(nodes=3, configs=self._configs, data_dir=self._directory) as cluster:
            nemesis = Nemesis(cluster, rng, self._say)
            self.rounds = nemesis.rounds
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                turn += 1
                turn_end = min(end, time.monotonic() + turn_seconds)
                found = self._turn(cluster, nemesis, f"chaos{turn}", turn_end)
                if found:
                    return found
        return []

    def missing(self, seconds: float) -> list[str]:
        """Why a run of so long in which nothing went wrong proves nothing."""
        found = []
        if not self.records:
            found.append("no record was acknowledged")
        if seconds >= ALL_SECONDS:
            found += [
                f"there was no round of {' or '.join(kind)}"
                for kind in KINDS
                if not any(name.startswith(kind) and count for name, count in self.rounds.items())
            ]
        return found

    def _turn(self, cluster: Cluster, nemesis: Nemesis, topic: str, end: float) -> list[str]:
        cluster.create_topic(topic, PARTITIONS)
        nemesis.aim_at(topic, PARTITIONS)
        with Load(cluster.bootstrap_servers, topic, PARTITIONS, self._seed) as load:
            nemesis.strike()  # at least once, however long the topic and the clients took
            while time.monotonic() < end:
                nemesis.strike()
            self._say("wait until all replicas are in sync")
            cluster.wait_isr(topic, timeout=SECONDS_MAX)
            load.stop()
            ends = end_offsets(load)
            load.reader.finish(ends, SECONDS_MAX)
        read_all("auditor", load, ends, SECONDS_MAX)
        written = load.history.operations.get("produce", 0)
        self.records += written
        self._say(f"{written} records were acknowledged; {sum(ends.values())} are there")
        complaints = load.complaints[:COMPLAINTS_MAX]
        if self._kind is Cluster:
            complaints += load.raised[:COMPLAINTS_MAX]
        else:
            load.excuse_raised_epochs()
            for line in load.raised:
                self._say(line)
        directories = [self._directory / f"node-{node}" for node in cluster.nodes]
        differs = differences(directories, topic, PARTITIONS, SECONDS_MAX)
        out = out_of_turn(directories[0], topic, PARTITIONS)[:COMPLAINTS_MAX]
        return [*complaints, *judged(load), *differs, *out]


def judged(load: Load) -> list[str]:
    """What the checker of the simulator says."""
    try:
        check(load.history, "auditor", lambda place, offset: None, lambda place: 0)
    except Violation as violation:
        return [str(violation)]
    return []


def end_offsets(load: Load) -> dict[int, int]:
    """How far a consumer can read."""
    consumer = Consumer({"bootstrap.servers": load.servers, "group.id": "ends", "log_level": 0})
    try:
        return {
            index: consumer.get_watermark_offsets(
                TopicPartition(load.topic, index), timeout=SECONDS_MAX
            )[1]
            for index in range(load.partitions)
        }
    finally:
        consumer.close()
