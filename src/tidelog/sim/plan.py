"""What a seed decides before anything happens: the cluster, its load, and its misfortunes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tidelog.broker.replica_selector import RACK_AWARE

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that is made at the beginning."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    is_trimmed: bool = False
    """Records are deleted from its beginning."""
    is_fleeting: bool = False
    """It is deleted and made again."""

    @property
    def min_insync_replicas(self) -> int:
        return int(self.configs.get("min.insync.replicas", "1"))

    @property
    def is_durable(self) -> bool:
        """Whether acks=all is a promise that outlives a machine."""
        return min(self.min_insync_replicas, self.replication_factor) >= 2


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How often what goes wrong, and for how long."""

    mean_interval_ms: int
    weights: dict[str, int]
    duration_ms: tuple[int, int]
    down_max: int
    """So many machines may be dead, paused or cut off at a time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything but chance during the run, which has the same seed."""

    seed: int
    seconds: int
    voters: tuple[int, ...]
    brokers: tuple[int, ...]
    is_dynamic: bool
    """Whether the voters are in the log (KIP-853) instead of in the configuration."""
    properties: dict[str, str]
    topics: tuple[TopicPlan, ...]
    consumers: int
    interval_ms: int
    """Between two bursts of a producer."""
    faults: FaultPlan
    network: NetworkPlan
    drift_ppm_max: int = 0
    wall_skew_ms_max: int = 0
    racks: tuple[str, ...] = field(default=())
    fast_steps: int | None = None
    """With so many steps in 8 ms a node waits for the end of a turn before it answers followers;
    None where no turn ends. Real nodes wait from 16 on, which none here makes."""

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({*self.voters, *self.brokers}))

    def node_properties(self, node_id: int) -> dict[str, str]:
        """The server.properties of one node."""
        listeners, roles = [], []
        if node_id in self.brokers:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://{host(node_id)}:{BROKER_PORT}")
        if node_id in self.voters:
            roles.append("controller")
            listeners.append(f"CONTROLLER://{host(node_id)}:{CONTROLLER_PORT}")
        voters = (f"{host(voter)}:{CONTROLLER_PORT}" for voter in self.voters)
        quorum = {"controller.quorum.bootstrap.servers": ",".join(voters)}
        if not self.is_dynamic:
            named = (f"{voter}@{host(voter)}:{CONTROLLER_PORT}" for voter in self.voters)
            quorum = {"controller.quorum.voters": ",".join(named)}
        elif node_id in self.voters:
            quorum["controller.quorum.auto.join.enable"] = "true"
        rack = {}
        if self.racks:
            rack["broker.rack"] = self.racks[node_id % len(self.racks)]
            rack["replica.selector.class"] = RACK_AWARE
        return {
            **rack,
            **self.properties,
            **quorum,
            "process.roles": ",".join(roles),
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "data",
        }


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """How fast, and how whole."""

    base_us: tuple[int, int] = (50, 500)
    jitter_us: tuple[int, int] = (50, 1000)
    split: float = 0.02


NODES = (3, 3, 3, 3, 3, 3, 3, 4, 5)
"""How many there are is drawn from these."""


def host(node_id: int) -> str:
    return f"node{node_id}"


QUIET = FaultPlan(mean_interval_ms=0, weights={}, duration_ms=(1, 2), down_max=0)
"""Nothing goes wrong."""


def make_plan(seed: int, nodes: int | None = None, seconds: int = 30) -> Plan:
    """The same of the same seed."""
    rng = random.Random(f"plan/{seed}")
    drawn = rng.choice(NODES)
    nodes = nodes or drawn
    voters = tuple(range(1, (5 if nodes == 5 and rng.randrange(2) else min(nodes, 3)) + 1))
    brokers = tuple(range(1, nodes + 1))
    factor = min(3, nodes)
    plan = Plan(
        seed=seed,
        seconds=seconds,
        voters=voters,
        brokers=brokers,
        is_dynamic=rng.randrange(3) == 0,
        properties=_properties(rng),
        topics=_topics(rng, factor),
        consumers=1,
        interval_ms=rng.choice((300, 500, 800)),
        faults=_faults(rng, nodes),
        network=NetworkPlan(split=rng.choice((0.0, 0.01, 0.1))),
        drift_ppm_max=rng.choice((0, 100, 20_000)),
        wall_skew_ms_max=rng.choice((0, 50, 60_000)),
        racks=("a", "b") if rng.randrange(3) == 0 else (),
        fast_steps=rng.choice((None, None, 0, 1)),
    )
    if nodes > len(voters) and rng.randrange(3) == 0:
        return replace(plan, brokers=brokers[-factor:])  # the first are controllers alone
    return plan


def _properties(rng: random.Random) -> dict[str, str]:
    """Timeouts are short, so that a run of half a minute sees many of them pass."""
    return {
        "replica.lag.time.max.ms": rng.choice(("1000", "3000", "10000")),
        "broker.session.timeout.ms": rng.choice(("2000", "5000", "9000")),
        "broker.heartbeat.interval.ms": rng.choice(("300", "1000")),
        "replica.fetch.backoff.ms": rng.choice(("50", "300", "1000")),
        "replica.fetch.wait.max.ms": rng.choice(("100", "500")),
        "num.replica.fetchers": rng.choice(("1", "1", "2")),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(("500", "5000")),
        "log.flush.offset.checkpoint.interval.ms": rng.choice(("1000", "60000")),
        "leader.imbalance.check.interval.seconds": rng.choice(("3", "10", "300")),
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(
            ("2000", "20000", "20971520")
        ),
        "internal.metadata.log.segment.bytes": rng.choice(("4096", "65536")),
        "metadata.max.retention.bytes": rng.choice(("10000", "104857600")),
        "metadata.max.idle.interval.ms": rng.choice(("500", "3000")),
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "true",
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "1",
    }


def _topics(rng: random.Random, factor: int) -> tuple[TopicPlan, ...]:
    small = {"internal.segment.bytes": str(rng.choice((4, 16, 256)) << 10), "segment.ms": "600000"}
    durable = {**small, "min.insync.replicas": str(min(2, factor))}
    if rng.randrange(3) == 0:
        durable["flush.messages"] = str(rng.choice((1, 5)))
    unclean = rng.choice(("true", "false"))
    return (
        TopicPlan("ledger", 3, factor, durable),
        TopicPlan(
            "quick",
            1,
            factor,
            {
                **small,
                "min.insync.replicas": "1",
                "unclean.leader.election.enable": unclean,
            },
        ),
        TopicPlan("trimmed", 1, factor, durable, is_trimmed=True),
        TopicPlan("fleeting", 1, min(2, factor), durable, is_fleeting=True),
    )


FAULTS = {
    "kill": 5,
    "restart": 3,
    "pause": 4,
    "power loss": 4,
    "power loss during a write": 3,
    "clean stop": 3,
    "partition": 5,
    "one-way partition": 4,
    "isolated client": 2,
    "slow link": 3,
    "broken connection": 10,
    "stalled connections": 5,
    "slow disk": 3,
    "failing flush": 2,
    "failing reads": 2,
    "full disk": 2,
    "clock jump": 2,
    "bit rot in an index": 1,
    "wiped disk": 1,
}
"""Weights; a seed leaves some out and doubles others."""


def _faults(rng: random.Random, nodes: int) -> FaultPlan:
    weights = {name: weight * rng.choice((0, 1, 1, 1, 3)) for name, weight in FAULTS.items()}
    if not any(weights.values()):
        weights["kill"] = 1
    return FaultPlan(
        mean_interval_ms=rng.choice((400, 700, 1000)),
        weights=weights,
        duration_ms=rng.choice(((100, 1500), (500, 4000), (1000, 8000))),
        down_max=rng.choice((1, 1, (nodes - 1) // 2, nodes)),
    )
