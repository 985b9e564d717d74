"""Whole runs: the same seed does the same, and what breaks is found."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tidelog.sim.cluster import CleanStop
from tidelog.sim.plan import make_plan
from tidelog.sim.simulator import Result, Simulator
from tidelog.sim.timeline import SECOND
from tidelog.sim.view import metadata_of, node_of

SECONDS = 5


@cache
def run(seed: int) -> Result:
    return Simulator(make_plan(seed, seconds=SECONDS)).run()


def test_a_seed_without_a_violation() -> None:
    result = run(3)
    assert result.violation is None
    assert result.operations["Produce"] > 50
    assert sum(result.faults.values()) > 2


def test_seeds_differ() -> None:
    assert run(1).digest != run(2).digest


@pytest.mark.parametrize(
    "environment", [{"PYTHONHASHSEED": "0"}, {"PYTHONHASHSEED": "1", "TIDELOG_PURE": "1"}]
)
def test_the_same_seed_has_the_same_hash_in_another_process(environment: dict[str, str]) -> None:
    """Also where nothing is compiled."""
    program = str(Path(sys.executable).with_name("tidelog"))
    done = subprocess.run(
        [program, "simulate", "--seed", "2", "--seconds", str(SECONDS)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == f"hash {run(2).digest}"


def test_the_trace_does_not_change_what_happens() -> None:
    lines: list[str] = []
    assert Simulator(make_plan(1, seconds=SECONDS), lines.append).run().digest == run(1).digest
    assert any("Produce" in line for line in lines)


def test_power_may_fail_in_the_step_that_a_stop_begins_with() -> None:
    """The active controller writes at once that its own broker leaves."""
    simulator = Simulator(make_plan(1, seconds=SECONDS))
    simulator.cluster.start()
    simulator.timeline.run(5 * SECOND)
    machines = simulator.cluster.machines.values()
    active = next(one for one in machines if metadata_of(node_of(one)).raft.is_leader)
    active.disk.crash_at = active.disk.operations
    CleanStop(active)
    assert not active.is_running
    simulator.timeline.run(6 * SECOND)


def test_a_seed_draws_from_all_that_there_is() -> None:
    plans = [make_plan(seed) for seed in range(1, 101)]
    assert {len(plan.nodes) for plan in plans} == {3, 4, 5}
    assert {plan.is_dynamic for plan in plans} == {False, True}
    assert {len(plan.voters) for plan in plans} == {3, 5}
    roles = {plan.node_properties(node)["process.roles"] for plan in plans for node in plan.nodes}
    assert roles == {"broker", "controller", "broker,controller"}
    assert all(len(plan.brokers) >= 3 for plan in plans)
