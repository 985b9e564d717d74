"""One node of Tidelog beside one of Apache Kafka 4.3.1: throughput, latency, start and memory.

Both are warm and take turns, and a round's figures are compared with each other only: the median of
the rounds' ratios counts. Exits 1 if a target is missed.

    python benchmarks/broker.py [--short] [--case NAME ...] [--system NAME] [--rounds N]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness.figures import at_least, at_most, latency, requests, throughput
from benchmarks.harness.versus import Versus
from tests.interop.apache import ApacheKafka
from tests.interop.tidelog_node import TidelogNode

BROKER = Versus(
    title="One node of Tidelog beside one of Apache Kafka.",
    make={"tidelog": TidelogNode, "apache": ApacheKafka},
    replicas=1,
    cases=[
        throughput(100, 16_384, at_least(2)),
        throughput(100, 102_400, at_least(1.2), at_most(1 / 3)),
        throughput(1024, 16_384, at_least(2)),
        throughput(1024, 102_400, at_least(1.2), at_most(1 / 3)),
        requests(50, 1, at_least(1.2)),
        requests(50, 8, None),
        latency(at_most(1)),
    ],
    start_limit=at_most(1 / 8),
    memory_limit=at_most(1 / 6),
)

if __name__ == "__main__":
    sys.exit(BROKER.main())
