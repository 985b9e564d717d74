"""One node of Tidelog beside one of Apache Kafka 4.3.1: throughput, latency, start and memory.

Both are warm and take turns, and a round's figures are compared with each other only: the median of
the rounds' ratios counts. Exits 1 if a target is missed.

    python benchmarks/broker.py [--short] [--case NAME ...] [--system NAME] [--rounds N]
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness.system import Measured, System, wait_until_quiet
from rich.console import Console
from rich.table import Table
from tests.interop.apache import ApacheKafka
from tests.interop.process import NodeProcess
from tests.interop.tidelog_node import TidelogNode

import tidelog

NODES: dict[str, type[NodeProcess]] = {"tidelog": TidelogNode, "apache": ApacheKafka}
WARM_SECONDS = {"tidelog": 10.0, "apache": 75.0}
"""A JVM compiles for a minute and more; Python is as fast at once, but its files are not."""

IDLE_SECONDS = 3.0
ROUNDS = 3
SHORT = 8
"""By how much the short mode does less."""

Values = dict[str, float]


def announce(text: str) -> None:
    print(text, file=sys.stderr)


class Limit(NamedTuple):
    """What Tidelog's figure over Apache's may be."""

    ratio: float
    is_least: bool

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.ratio:.2f}"

    def holds(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.is_least else ratio <= self.ratio


def at_least(ratio: float) -> Limit:
    return Limit(ratio, True)


def at_most(ratio: float) -> Limit:
    return Limit(ratio, False)


class Case(NamedTuple):
    """A measurement that both systems take in turn, and the limits of what it yields."""

    name: str
    run: Callable[[System, int], Values]
    limits: dict[str, Limit | None]


def shown(system: System, measured: Measured) -> None:
    load = measured.load
    broker, client = measured.broker_cpu_seconds / load.seconds, load.cpu_seconds / load.seconds
    announce(
        f"    {system.name:8} {load.records / load.seconds:11,.0f} records/s, {load.seconds:.1f} s;"
        f" cores: broker {broker:.2f}, client {client:.2f}, others {measured.foreign_cores:.2f};"
        f" p50 {load.p50_ms:.2f}, p99 {load.p99_ms:.2f}, p99.9 {load.p999_ms:.2f} ms"
    )


def throughput(record_bytes: int, batch_bytes: int) -> Case:
    name = f"{record_bytes} B records, {batch_bytes // 1024} KB batches"
    speed, cost = f"{name}: MB/s", f"{name}: broker CPU s/GB"
    records = 4_000_000 if record_bytes < 1000 else 1_000_000

    def run(system: System, fraction: int) -> Values:
        measured = system.produce(record_bytes, batch_bytes, records // fraction)
        shown(system, measured)
        megabytes = record_bytes * measured.load.records / 1e6
        return {
            speed: megabytes / measured.load.seconds,
            cost: measured.broker_cpu_seconds / (megabytes / 1000),
        }

    if batch_bytes < 100 << 10:
        return Case("throughput", run, {speed: at_least(2), cost: None})
    return Case("throughput", run, {speed: at_least(1.2), cost: at_most(1 / 3)})


def requests(connections: int, depth: int, limit: Limit | None) -> Case:
    name = f"requests of one record, {connections} connections x {depth}: /s"

    def run(system: System, fraction: int) -> Values:
        measured = system.requests(connections, depth, 8 / fraction)
        shown(system, measured)
        return {name: measured.load.records / measured.load.seconds}

    return Case("requests", run, {name: limit})


def latency() -> Case:
    names = [f"1000 records/s, linger 0: {part} ms" for part in ("p50", "p99", "p99.9")]

    def run(system: System, fraction: int) -> Values:
        measured = system.paced(1000, 10_000 // fraction)
        shown(system, measured)
        load = measured.load
        return dict(zip(names, (load.p50_ms, load.p99_ms, load.p999_ms), strict=True))

    return Case("latency", run, dict(zip(names, (None, at_most(1), None), strict=True)))


CASES = [
    throughput(100, 16_384),
    throughput(100, 102_400),
    throughput(1024, 16_384),
    throughput(1024, 102_400),
    requests(50, 1, at_least(1.2)),
    requests(50, 8, None),
    latency(),
]
START = "start command to first acknowledged record: s"
IDLE = "resident memory, idle: MB"
LOADED = "resident memory, after the load: MB"
NODE_LIMITS: dict[str, dict[str, Limit | None]] = {
    "start": {START: at_most(1 / 8)},
    "memory": {IDLE: at_most(1 / 6), LOADED: at_most(1 / 6)},
}
CASE_NAMES = (*dict.fromkeys(case.name for case in CASES), *NODE_LIMITS)


class Results:
    """Every figure of every system, a value for each round."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, list[float]]] = {}
        self.limits: dict[str, Limit | None] = {}

    def expect(self, limits: dict[str, Limit | None]) -> None:
        for figure, limit in limits.items():
            self.limits[figure] = limit
            self.values[figure] = {}

    def note(self, system: System, values: Values) -> None:
        for figure, value in values.items():
            self.values[figure].setdefault(system.name, []).append(value)

    def ratio(self, figure: str) -> float | None:
        """The median of the rounds' ratios; None where only one system ran."""
        ours, theirs = (self.values[figure].get(name) for name in NODES)
        if not ours or not theirs:
            return None
        return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))

    def missed(self) -> list[str]:
        found = ((figure, limit, self.ratio(figure)) for figure, limit in self.limits.items())
        return [f for f, limit, ratio in found if limit and ratio and not limit.holds(ratio)]

    def table(self) -> Table:
        table = Table("figure", *NODES, "ratio", "target", "", title="medians of the rounds")
        for column in table.columns[1:5]:
            column.justify = "right"
        for figure, limit in self.limits.items():
            values = [self.values[figure].get(name) for name in NODES]
            cells = [f"{statistics.median(v):,.4g}" if v else "–" for v in values]
            ratio = self.ratio(figure)
            verdict = "" if ratio is None or limit is None else "ok"
            if figure in self.missed():
                verdict = "[bold red]missed"
            shown_ratio = "–" if ratio is None else f"{ratio:.2f}"
            table.add_row(figure, *cells, shown_ratio, str(limit or ""), verdict)
        return table


def measure_starts(results: Results, names: list[str], rounds: int) -> None:
    """Nodes of their own, stopped with a topic on disk; nothing else of ours runs meanwhile."""
    results.expect(NODE_LIMITS["start"])
    announce("== start")
    with ExitStack() as stack:
        stopped = []
        for name in names:
            system = System(name, stack.enter_context(NODES[name]()))
            stopped.append((system, system.create_topic()))
            system.node.stop()
        for _ in range(rounds):
            for system, topic in stopped:
                wait_until_quiet()
                seconds = system.first_ack_seconds(topic)
                announce(f"    {system.name:8} {seconds:.3f} s")
                results.note(system, {START: seconds})
                system.node.stop()


def warm(system: System, seconds: float) -> None:
    """All loads in turn, so that what is compiled is what is measured."""
    announce(f"== warming {system.name} for {seconds:.0f} s")
    deadline = time.monotonic() + seconds
    system.is_warming = True
    while time.monotonic() < deadline:
        for case in CASES:
            case.run(system, SHORT)
    system.is_warming = False


def turns(systems: list[System], rounds: int) -> Iterator[System]:
    """Each once a round; who is first changes, so that drift hits both."""
    for number in range(rounds):
        yield from systems if number % 2 == 0 else reversed(systems)


def measure_running(
    results: Results, names: list[str], case_names: list[str], rounds: int, fraction: int
) -> None:
    with ExitStack() as stack:
        systems = [System(name, stack.enter_context(NODES[name]())) for name in names]
        if "memory" in case_names:
            results.expect(NODE_LIMITS["memory"])
            time.sleep(IDLE_SECONDS)
            for system in systems:
                results.note(system, {IDLE: system.resident_bytes() / 1e6})
        for system in systems:
            warm(system, WARM_SECONDS[system.name] / fraction)
        for case in CASES:
            if case.name in case_names:
                results.expect(case.limits)
                announce(f"== {next(iter(case.limits))}")
                for system in turns(systems, rounds):
                    results.note(system, case.run(system, fraction))
        if "memory" in case_names:
            for system in systems:
                results.note(system, {LOADED: system.resident_bytes() / 1e6})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--case", action="append", choices=CASE_NAMES, help="only this; repeatable")
    parser.add_argument("--system", choices=NODES, help="only this one, without ratios")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--short", action="store_true", help="less load and warming, to try it out")
    options = parser.parse_args()
    names = [options.system] if options.system else list(NODES)
    case_names = options.case or list(CASE_NAMES)
    results = Results()
    # As a package is that was installed: pip compiles it, an editable install does not.
    compileall.compile_dir(Path(tidelog.__file__).parent, quiet=1)
    if "start" in case_names:
        measure_starts(results, names, options.rounds)
    if set(case_names) - {"start"}:
        fraction = SHORT if options.short else 1
        measure_running(results, names, case_names, options.rounds, fraction)
    Console(width=120).print(results.table())
    return bool(results.missed())


if __name__ == "__main__":
    sys.exit(main())
