"""`make chaos`: three minutes of trouble for a cluster of three, or as long as it is told."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.run import Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--data", type=Path, help="a directory whose files are kept")
    arguments = parser.parse_args()
    directory = arguments.data or Path(tempfile.mkdtemp(prefix="tidelog-chaos-"))
    start = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.strftime('%X')} {time.monotonic() - start:7.1f} {line}", flush=True)

    say(f"seed {arguments.seed}, data in {directory}")
    run = Run(directory, arguments.seed, say)
    found = run.go(arguments.seconds)
    rounds = ", ".join(f"{name} {count}" for name, count in sorted(run.rounds.items()))
    say(f"{sum(run.rounds.values())} rounds: {rounds}")
    if found:
        for line in found:
            print(line, file=sys.stderr)
        print(f"The nodes' data and logs are in {directory}.", file=sys.stderr)
        return 1
    say(
        f"{run.records} records were acknowledged and none is lost; every producer epoch's batches"
        " are there once and in their turn; of producers with one request at a time no record is"
        " there twice or out of order; replicas are the same byte by byte"
    )
    if arguments.data is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
