"""Three nodes of Tidelog beside three of Apache Kafka 4.3.1: replication factor 3, acks=all.

Tidelog's are those of `tidelog up --nodes 3`. Both are warm and take turns, and a round's figures
are compared with each other only: the median of the rounds' ratios counts. Exits 1 if a target is
missed.

    python benchmarks/cluster.py [--short] [--case NAME ...] [--system NAME] [--rounds N]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness.clusters import ApacheCluster, TidelogCluster
from benchmarks.harness.figures import (
    at_least,
    at_most,
    idle_partitions,
    latency,
    requests,
    throughput,
)
from benchmarks.harness.versus import Versus

CLUSTER = Versus(
    title="Three nodes of Tidelog beside three of Apache Kafka.",
    make={"tidelog": TidelogCluster, "apache": ApacheCluster},
    replicas=3,
    cases=[
        throughput(100, 16_384, at_least(2)),
        throughput(100, 102_400, at_least(1.3)),
        throughput(100, 1_048_576, at_least(1.3)),
        throughput(1024, 16_384, at_least(2)),
        throughput(1024, 102_400, at_least(1.3)),
        throughput(1024, 1_048_576, at_least(1.3)),
        requests(50, 1, at_least(1.2)),
        requests(50, 8, None),
        latency(at_most(0.6)),
        idle_partitions(900, 0.05),
    ],
    start_limit=at_most(1 / 7),
    memory_limit=at_most(1 / 6),
)

if __name__ == "__main__":
    sys.exit(CLUSTER.main())
