"""Two systems that take turns.

Each is warm, and a round's figures are compared with each other only. The median of the rounds'
ratios counts.
"""

from __future__ import annotations

import argparse
import compileall
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.figures import SYSTEMS, Case, Limit, Results, announce
from benchmarks.harness.system import Served, System, wait_until_quiet
from rich.console import Console

import tidelog

WARM_SECONDS = {"tidelog": 10.0, "apache": 75.0}
"""For each node. A JVM compiles for a minute and more; Python is as fast at once, but its files
are not."""

IDLE_SECONDS = 3.0
ROUNDS = 3
SHORT = 8
"""By how much the short mode does less."""

START = "start command to first acknowledged record: s"
IDLE = "resident memory, idle: MB"
LOADED = "resident memory, after the load: MB"


class Versus(NamedTuple):
    """What is compared with what, by which cases."""

    title: str
    make: dict[str, Callable[[], AbstractContextManager[Served]]]
    """Each starts a system; by the system's name."""
    replicas: int
    cases: list[Case]
    start_limit: Limit
    memory_limit: Limit

    def system(self, name: str, stack: ExitStack) -> System:
        return System(name, stack.enter_context(self.make[name]()), self.replicas)

    def measure_starts(self, results: Results, names: list[str], rounds: int) -> None:
        """Systems of their own, stopped cleanly with a topic on disk; nothing else of ours runs
        meanwhile. The first acknowledged record is on all replicas."""
        results.expect({START: self.start_limit})
        announce("== start")
        with ExitStack() as stack:
            stopped = []
            for name in names:
                system = self.system(name, stack)
                stopped.append((system, system.create_topic(min_isr=self.replicas)))
                system.node.stop()
            for _ in range(rounds):
                for system, topic in stopped:
                    wait_until_quiet()
                    seconds = system.first_ack_seconds(topic)
                    announce(f"    {system.name:8} {seconds:.3f} s")
                    results.note(system, {START: seconds})
                    system.node.stop()

    def measure_running(
        self, results: Results, names: list[str], case_names: list[str], rounds: int, fraction: int
    ) -> None:
        with ExitStack() as stack:
            systems = [self.system(name, stack) for name in names]
            if "memory" in case_names:
                results.expect({IDLE: self.memory_limit, LOADED: self.memory_limit})
                time.sleep(IDLE_SECONDS)
                for system in systems:
                    results.note(system, {IDLE: system.resident_bytes() / 1e6})
            for system in systems:
                self.warm(system, WARM_SECONDS[system.name] * self.replicas / fraction)
            for case in self.cases:
                if case.name in case_names:
                    results.expect(case.limits)
                    announce(f"== {next(iter(case.limits))}")
                    for system in turns(systems, rounds):
                        results.note(system, case.run(system, fraction))
            if "memory" in case_names:
                for system in systems:
                    results.note(system, {LOADED: system.resident_bytes() / 1e6})

    def warm(self, system: System, seconds: float) -> None:
        """All loads in turn, so that what is compiled is what is measured."""
        announce(f"== warming {system.name} for {seconds:.0f} s")
        deadline = time.monotonic() + seconds
        system.is_warming = True
        while time.monotonic() < deadline:
            for case in self.cases:
                if case.is_load:
                    case.run(system, SHORT)
        system.is_warming = False

    def main(self) -> int:
        """The command; 1 if a target is missed."""
        case_names = (*dict.fromkeys(case.name for case in self.cases), "start", "memory")
        parser = argparse.ArgumentParser(description=self.title)
        parser.add_argument("--case", action="append", choices=case_names, help="repeatable")
        parser.add_argument("--system", choices=SYSTEMS, help="only this one, without ratios")
        parser.add_argument("--rounds", type=int, default=ROUNDS)
        parser.add_argument("--short", action="store_true", help="less of all, to try it out")
        options = parser.parse_args()
        names = [options.system] if options.system else list(SYSTEMS)
        chosen = options.case or list(case_names)
        results = Results()
        # As a package is that was installed: pip compiles it, an editable install does not.
        compileall.compile_dir(Path(tidelog.__file__).parent, quiet=1)
        if "start" in chosen:
            self.measure_starts(results, names, options.rounds)
        if set(chosen) - {"start"}:
            fraction = SHORT if options.short else 1
            self.measure_running(results, names, chosen, options.rounds, fraction)
        Console(width=120).print(results.table())
        return bool(results.missed())


def turns(systems: list[System], rounds: int) -> Iterator[System]:
    """Each once a round; who is first changes, so that drift hits both."""
    for number in range(rounds):
        yield from systems if number % 2 == 0 else reversed(systems)
