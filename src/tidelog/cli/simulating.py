"""Runs seeds of the simulator, here or in as many processes as there are cores, and adds up."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from statistics import median

import click

from tidelog.sim.plan import make_plan
from tidelog.sim.simulator import Result, Simulator

FAULTS_MIN = 20
OPERATIONS_MIN = 500
"""What the median seed must reach, or the run says little."""
BAR_WIDTH = 40
LINE_EVERY = 25
"""Seeds, where nobody sees a bar."""
SEEDS_COVERING = 200
"""A run of so many seeds must have reached every fault and every rare branch."""


Work = tuple[int, int | None, int]
"""A seed, how many nodes (None: the seed decides), for how long."""


def simulate(work: Work, show: Callable[[str], None] | None = None) -> Result:
    """One seed, in whatever process."""
    # A run makes few cycles and many objects: looking for the former takes a quarter of its time.
    gc.disable()
    try:
        return Simulator(make_plan(*work), show).run()
    finally:
        gc.enable()
        gc.collect()


def run_one(seed: int, nodes: int | None, seconds: int, *, is_traced: bool) -> int:
    """The exit code."""
    began, busy = time.perf_counter(), time.process_time()
    result = simulate((seed, nodes, seconds), click.echo if is_traced else None)
    _print_summary([result], time.perf_counter() - began, time.process_time() - busy)
    click.echo(f"hash {result.digest}")
    if result.violation is not None:
        click.echo(_complaint(result, nodes, seconds), err=True)
        return 1
    return 0


def timed(work: Work) -> tuple[Result, float]:
    """With the seconds of one core that it took."""
    began = time.process_time()
    return simulate(work), time.process_time() - began


def run_many(seeds: range, nodes: int | None, seconds: int) -> int:
    """The exit code. All seeds run, also after a violation."""
    began = time.perf_counter()
    results: list[Result] = []
    busy = 0.0
    for result, core_seconds in _results([(seed, nodes, seconds) for seed in seeds]):
        results.append(result)
        busy += core_seconds
        if result.violation is not None:
            click.echo(_complaint(result, nodes, seconds), err=True)
        _show_progress(len(results), len(seeds), time.perf_counter() - began)
    _print_summary(results, time.perf_counter() - began, busy)
    complaints = [] if len(seeds) < SEEDS_COVERING else list(_too_little(results))
    for complaint in complaints:
        click.echo(complaint, err=True)
    return 1 if complaints or any(result.violation for result in results) else 0


def _show_progress(done: int, total: int, elapsed: float) -> None:
    """A bar for a person; a line now and then for a log."""
    words = f"{done} of {total} seeds, {elapsed:.0f} s"
    if sys.stderr.isatty():
        bar = ("#" * (BAR_WIDTH * done // total)).ljust(BAR_WIDTH, ".")
        line = "" if done == total else f"{bar} {words}"
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)
    elif done % LINE_EVERY == 0:
        click.echo(words, err=True)


def _results(work: list[Work]) -> Iterator[tuple[Result, float]]:
    processes = min(os.cpu_count() or 1, len(work))
    if processes == 1:
        yield from map(timed, work)
        return
    pool = ProcessPoolExecutor(processes, get_context("fork"))
    try:
        # Not `map`, which keeps what is done until its turn comes; a worker that dies is told of.
        for done in as_completed([pool.submit(timed, one) for one in work]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _complaint(result: Result, nodes: int | None, seconds: int) -> str:
    assert result.violation is not None
    size = "" if nodes is None else f" --nodes {nodes}"
    replay = f"tidelog simulate --seed {result.seed}{size} --seconds {seconds} --trace"
    return (
        f"seed {result.seed}: violated at step {result.steps}, after"
        f" {result.simulated_us / 1e6:.3f} s\n"
        f"  invariant: {result.violation.invariant}\n"
        f"  {result.violation.detail}\n"
        f"  again: {replay}"
    )


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            total[name] = total.get(name, 0) + number
    return dict(sorted(total.items()))


def _print_summary(results: list[Result], elapsed: float, busy: float) -> None:
    steps = sum(result.steps for result in results)
    simulated = sum(result.simulated_us for result in results) / 1e6
    requests = sum(result.client_requests for result in results)
    for title, counts in (
        ("faults injected", _sum(result.faults for result in results)),
        ("operations acknowledged", _sum(result.operations for result in results)),
        ("reached", _sum(result.branches for result in results)),
    ):
        click.echo(f"{title}:")
        for name, number in counts.items():
            click.echo(f"  {number:>9,}  {name}")
    slowest = max(results, key=lambda result: result.recovery_us)
    click.echo(f"the slowest recovery took {slowest.recovery_us / 1e6:.1f} s (seed {slowest.seed})")
    violated = sum(result.violation is not None for result in results)
    click.echo(
        f"{len(results)} seeds, {violated} violated; {simulated:,.0f} simulated seconds and"
        f" {steps:,} steps in {elapsed:.1f} s: {steps / elapsed:,.0f} steps a second,"
        f" {simulated / busy:.1f} simulated seconds a second of one core, each with"
        f" {requests / simulated:.0f} requests of clients"
    )


def _too_little(results: list[Result]) -> Iterator[str]:
    """What keeps a run without violations from meaning much."""
    faults = median(sum(result.faults.values()) for result in results)
    operations = median(sum(result.operations.values()) for result in results)
    if faults < FAULTS_MIN:
        yield f"the median seed injected {faults:g} faults, fewer than {FAULTS_MIN}"
    if operations < OPERATIONS_MIN:
        yield f"the median seed acknowledged {operations:g} operations, not {OPERATIONS_MIN}"
    reached = _sum(result.faults for result in results)
    reached |= _sum(result.branches for result in results)
    for name in results[0].wanted:
        if name not in reached:
            yield f"never reached: {name}"
