"""`make chaos`: three minutes of trouble for a cluster of three, or as long as it is told."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.apache import ApacheCluster
from tests.chaos.run import Run
from tidelog.testing import Cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--data", type=Path, help="a directory whose files are kept")
    parser.add_argument("--apache", action="store_true", help="nodes of Apache Kafka instead")
    arguments = parser.parse_args()
    directory = arguments.data or Path(tempfile.mkdtemp(prefix="tidelog-chaos-"))
    start = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.strftime('%X')} {time.monotonic() - start:7.1f} {line}", flush=True)

    say(f"seed {arguments.seed}, data in {directory}")
    run = Run(directory, arguments.seed, say, kind=ApacheCluster if arguments.apache else Cluster)
    found = run.go(arguments.seconds) or run.missing(arguments.seconds)
    rounds = ", ".join(f"{name} {count}" for name, count in sorted(run.rounds.items()))
    say(f"{sum(run.rounds.values())} rounds: {rounds}")
    if found:
        for line in found:
            print(line, file=sys.stderr)
        print(f"The nodes' data and logs are in {directory}.", file=sys.stderr)
        return 1
    once = "but by producers that raised their epoch " if arguments.apache else ""
    say(
        f"{run.records} records were acknowledged: none is lost, none is there twice {once}and all"
        " are in order; replicas are the same byte by byte"
    )
    if arguments.data is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
