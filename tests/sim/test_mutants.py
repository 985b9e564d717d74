"""Every planted bug is found on a seed that found it before, or soon after: what a seed does
changes with the product. As a program it looks for seeds afresh."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.sim.mutant import Mutant
from tests.sim.mutants import ALL

ROOT = Path(__file__).parents[2]
SEEDS_MAX = 300
DRIFT_MAX = 10
"""So many seeds from the recorded one on are tried."""


def is_found(mutant: Mutant, seed: int) -> bool:
    """Whether the default run of that seed ends with a violation."""
    command = [sys.executable, "-m", "tests.sim.mutated", mutant.name, "simulate"]
    done = subprocess.run(
        [*command, "--seed", str(seed)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "invariant:" in done.stderr or done.returncode == 0, done.stderr
    return done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert any(is_found(mutant, mutant.seed + drift) for drift in range(DRIFT_MAX))


def test_there_are_enough_of_them() -> None:
    assert len({mutant.name for mutant in ALL}) >= 25


def search(mutant: Mutant) -> str:
    command = [sys.executable, "-m", "tests.sim.mutated", mutant.name, "search", str(SEEDS_MAX)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return f"{mutant.name}: {done.stdout.strip() or f'NOT FOUND within {SEEDS_MAX} seeds'}"


if __name__ == "__main__":
    wanted = [one for one in ALL if not sys.argv[1:] or one.name in sys.argv[1:]]
    survivors = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for line in pool.map(search, wanted):
            print(line, flush=True)
            survivors += "NOT FOUND" in line
    sys.exit(1 if survivors else 0)
