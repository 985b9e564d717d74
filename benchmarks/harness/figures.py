"""What is measured of two systems, what it may come to, and the table that tells."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.harness.system import Measured, System
from rich.table import Table

OURS, THEIRS = SYSTEMS = ("tidelog", "apache")

Values = dict[str, float]


def announce(text: str) -> None:
    print(text, file=sys.stderr)


class Limit(NamedTuple):
    """What Tidelog's figure over the other's may be; or what it may be itself."""

    value: float
    is_least: bool
    is_ratio: bool = True

    def __str__(self) -> str:
        return (
            f"{'≥' if self.is_least else '≤'} {self.value:.2f}{'' if self.is_ratio else ' (own)'}"
        )

    def holds(self, value: float) -> bool:
        return value >= self.value if self.is_least else value <= self.value


def at_least(ratio: float) -> Limit:
    return Limit(ratio, True)


def at_most(ratio: float) -> Limit:
    return Limit(ratio, False)


class Case(NamedTuple):
    """A measurement that both systems take in turn, and the limits of what it yields."""

    name: str
    run: Callable[[System, int], Values]
    limits: dict[str, Limit | None]
    is_load: bool = True


def shown(system: System, measured: Measured) -> None:
    load = measured.load
    broker, client = measured.broker_cpu_seconds / load.seconds, load.cpu_seconds / load.seconds
    announce(
        f"    {system.name:8} {load.records / load.seconds:11,.0f} records/s, {load.seconds:.1f} s;"
        f" cores: broker {broker:.2f}, client {client:.2f}, others {measured.foreign_cores:.2f};"
        f" p50 {load.p50_ms:.2f}, p99 {load.p99_ms:.2f}, p99.9 {load.p999_ms:.2f} ms"
    )


def throughput(
    record_bytes: int, batch_bytes: int, speed_limit: Limit, cost_limit: Limit | None = None
) -> Case:
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

    return Case("throughput", run, {speed: speed_limit, cost: cost_limit})


def requests(connections: int, depth: int, limit: Limit | None) -> Case:
    name = f"requests of one record, {connections} connections x {depth}: /s"

    def run(system: System, fraction: int) -> Values:
        measured = system.requests(connections, depth, 8 / fraction)
        shown(system, measured)
        return {name: measured.load.records / measured.load.seconds}

    return Case("requests", run, {name: limit})


def latency(p99_limit: Limit) -> Case:
    names = [f"1000 records/s, linger 0: {part} ms" for part in ("p50", "p99", "p99.9")]

    def run(system: System, fraction: int) -> Values:
        measured = system.paced(1000, 10_000 // fraction)
        shown(system, measured)
        load = measured.load
        return dict(zip(names, (load.p50_ms, load.p99_ms, load.p999_ms), strict=True))

    return Case("latency", run, dict(zip(names, (None, p99_limit, None), strict=True)))


def idle_partitions(count: int, cores_max: float) -> Case:
    name = f"{count} partitions without traffic: cores"

    def run(system: System, fraction: int) -> Values:
        cores = system.idle_cores(count, 20 / fraction)
        announce(f"    {system.name:8} {cores:.4f}")
        return {name: cores}

    return Case("idle", run, {name: Limit(cores_max, False, is_ratio=False)}, is_load=False)


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
        ours, theirs = (self.values[figure].get(name) for name in SYSTEMS)
        if not ours or not theirs:
            return None
        return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))

    def missed(self) -> list[str]:
        return [figure for figure in self.limits if self._holds(figure) is False]

    def _holds(self, figure: str) -> bool | None:
        """Whether the limit does; None without one, or without what it is a limit of."""
        limit, ours = self.limits[figure], self.values[figure].get(OURS)
        if limit is None or not ours:
            return None
        judged = self.ratio(figure) if limit.is_ratio else statistics.median(ours)
        return None if judged is None else limit.holds(judged)

    def table(self) -> Table:
        table = Table("figure", *SYSTEMS, "ratio", "target", "", title="medians of the rounds")
        for column in table.columns[1:5]:
            column.justify = "right"
        for figure, limit in self.limits.items():
            values = [self.values[figure].get(name) for name in SYSTEMS]
            cells = [f"{statistics.median(v):,.4g}" if v else "–" for v in values]
            ratio = self.ratio(figure)
            verdict = {True: "ok", False: "[bold red]missed", None: ""}[self._holds(figure)]
            shown_ratio = "–" if ratio is None else f"{ratio:.2f}"
            table.add_row(figure, *cells, shown_ratio, str(limit or ""), verdict)
        return table
