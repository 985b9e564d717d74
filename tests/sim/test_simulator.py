"""Whole runs: the same seed does the same, and what breaks is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.sim.plan import make_plan
from tidelog.sim.simulator import Simulator

SECONDS = 5


def test_a_seed_without_a_violation() -> None:
    result = Simulator(make_plan(3, nodes=1, seconds=SECONDS)).run()
    assert result.violation is None
    assert result.operations["Produce"] > 50
    assert sum(result.faults.values()) > 3


def test_seeds_differ() -> None:
    digests = {Simulator(make_plan(seed, 1, 2)).run().digest for seed in (1, 2)}
    assert len(digests) == 2


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_same_seed_has_the_same_hash_in_another_process(hash_seed: str) -> None:
    expected = Simulator(make_plan(5, nodes=1, seconds=SECONDS)).run().digest
    program = str(Path(sys.executable).with_name("tidelog"))
    command = [program, "simulate", "--seed", "5", "--nodes", "1"]
    done = subprocess.run(
        [*command, "--seconds", str(SECONDS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == f"hash {expected}"


def test_the_trace_does_not_change_what_happens() -> None:
    lines: list[str] = []
    plan = make_plan(5, nodes=1, seconds=2)
    assert Simulator(plan, lines.append).run().digest == Simulator(plan).run().digest
    assert any("Produce" in line for line in lines)
