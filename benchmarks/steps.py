"""The longest step of each kind of work on a node with very many partitions: the rule is that
none takes more than 5 ms. CPU time, on real files."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.unit.long_steps import MeasuredCluster, measured

from tidelog.disk import RealDisk

STEP_MS_MAX = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--topics", type=int, default=1000)
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as path:
        count = iter(range(10))

        def make() -> MeasuredCluster:
            disk: Any = RealDisk()
            return MeasuredCluster(disk, log_dirs=f"{path}/{next(count)}")

        found = measured(make, arguments.partitions, arguments.topics)
    print(f"{'longest step':>12} {'together':>10} {'steps':>7}")
    too_long = 0
    for kind, watch in found.items():
        is_too_long = watch.longest_ms > STEP_MS_MAX and "not a step" not in kind
        too_long += is_too_long
        mark = f"  above {STEP_MS_MAX:.0f} ms" if is_too_long else ""
        print(f"{watch.longest_ms:9.2f} ms {watch.total_ms:7.0f} ms {watch.steps:7}  {kind}{mark}")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
