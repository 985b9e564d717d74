"""Format "tidelog" beside Spark's own Kafka connector, which runs on a warm Apache Kafka (what
people have today) and on Tidelog. All run in one Spark session and take turns; the median of the
rounds' ratios counts. Exits 1 if a floor is missed, 2 if one was not compared.

    python -m benchmarks.spark [--case NAME ...] [--system NAME ...] [--rounds N] [--warm N]
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import sys
import time
from pathlib import Path

from benchmarks.harness.load import touch_memory
from benchmarks.harness.system import busy_seconds
from benchmarks.spark.cases import (
    CASES,
    MICRO_BATCH,
    MICRO_BATCH_TITLE,
    OVERHEAD_MAX,
    RATE,
    WRITTEN,
    Case,
    micro_batches,
    with_yardsticks,
)
from benchmarks.spark.processes import own_cpu_seconds
from benchmarks.spark.systems import (
    KINDS,
    ON_APACHE,
    ON_TIDELOG,
    OURS,
    SMALL,
    Contestant,
    contestants,
)
from rich.console import Console
from rich.table import Table

import tidelog

ROUNDS = 3
WARM_ROUNDS = 2
"""The connectors share a JVM, and Apache's brokers another: both compile for a minute."""
SETTLED = 1.05
SETTLING_ROUNDS_MAX = 8
"""What comes first is not compared with a connector that is still becoming faster."""

TITLE = "medians of the rounds; a ratio is the median of the rounds' ratios"

Speeds = dict[str, list[float]]
"""Rows a second, or milliseconds: by contestant a value for each round."""


def announce(text: str) -> None:
    print(text, file=sys.stderr)


def timed(case: Case, contestant: Contestant) -> float:
    """Rows a second."""
    busy, own, started = busy_seconds(), own_cpu_seconds(), time.monotonic()
    case.run(contestant)
    seconds = time.monotonic() - started
    used, all_used = own_cpu_seconds() - own, busy_seconds() - busy
    rows = case.shape.rows
    # Spark ends idle workers, and nobody is told what they had used.
    cpu = f"{rows / used:9,.0f} rows/CPU s; " if used > 0 else ""
    others = f"others used {(all_used - used) / seconds:.2f} cores" if used > 0 else ""
    announce(
        f"    {contestant.name:15} {rows / seconds:11,.0f} rows/s, {seconds:5.2f} s; {cpu}{others}"
    )
    return rows / seconds


def warm(cases: list[Case], taking_part: list[Contestant], rounds: int) -> None:
    """Rounds that do not count; then the connectors that the first case is compared with go on
    until they are no faster than before."""
    announce("== warming")
    for _ in range(rounds):
        for case in cases:
            for contestant in case.among(taking_part):
                timed(case, contestant)
    for contestant in cases[0].among(taking_part) if rounds else []:
        best = 0.0
        for _ in range(0 if contestant.is_ours else SETTLING_ROUNDS_MAX):
            speed = timed(cases[0], contestant)
            if speed < SETTLED * best:
                break
            best = speed


def measure(case: Case, taking_part: list[Contestant], rounds: int) -> Speeds:
    """Each once a round; who is first changes, so that drift hits all."""
    announce(f"== {case.title}")
    chosen = case.among(taking_part)
    speeds: Speeds = {contestant.name: [] for contestant in chosen}
    for number in range(rounds):
        turn = number % len(chosen)
        for contestant in chosen[turn:] + chosen[:turn]:
            touch_memory()
            speeds[contestant.name].append(timed(case, contestant))
    return speeds


def measure_micro_batches(ours: Contestant, rounds: int) -> Speeds:
    announce(f"== {MICRO_BATCH_TITLE}")
    found: Speeds = {ours.name: [], RATE: []}
    for _ in range(rounds):
        for name, milliseconds in micro_batches(ours).items():
            announce(f"    {name:15} {milliseconds:.0f} ms")
            found[name].append(milliseconds)
    return found


def ratio(speeds: Speeds, yardstick: str) -> float | None:
    """The median of the rounds' ratios; None where only one of both ran."""
    if not speeds.get(OURS) or not speeds.get(yardstick):
        return None
    pairs = zip(speeds[OURS], speeds[yardstick], strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)


class Report:
    """The table, and whether floors were missed, or could not be."""

    def __init__(self) -> None:
        self.was_missed = False
        self.was_not_compared = False
        names = (OURS, ON_APACHE, "ratio", "floor", ON_TIDELOG, "ratio", "floor")
        self.table = Table("rows a second", *names, title=TITLE)
        for column in self.table.columns[1:]:
            column.justify = "right"

    def add(self, case: Case, speeds: Speeds) -> None:
        cells = [self._speed(speeds, OURS)]
        for name, floor in zip((ON_APACHE, ON_TIDELOG), case.floor, strict=True):
            found = ratio(speeds, name)
            cells += [self._speed(speeds, name), *self._judge(found, floor, is_least=True)]
        self.table.add_row(case.title, *cells)

    def add_micro_batches(self, found: Speeds) -> None:
        ours, rate = self._speed(found, OURS), self._speed(found, RATE)
        judged = self._judge(ratio(found, RATE), OVERHEAD_MAX, is_least=False)
        self.table.add_row(MICRO_BATCH_TITLE, ours, f"{RATE} {rate}", *judged)

    @staticmethod
    def _speed(speeds: Speeds, name: str) -> str:
        return f"{statistics.median(speeds[name]):,.0f}" if speeds.get(name) else "–"

    def _judge(self, found: float | None, limit: float | None, *, is_least: bool) -> list[str]:
        shown = "–" if found is None else f"{found:.2f}"
        if limit is None:
            return [shown, ""]
        if found is None:
            self.was_not_compared = True
            shown = "[bold red]not compared"
        elif found < limit if is_least else found > limit:
            self.was_missed = True
            shown = f"[bold red]{shown}"
        return [shown, f"{'≥' if is_least else '≤'} {limit:.1f}"]

    @property
    def exit_code(self) -> int:
        return 1 if self.was_missed else 2 if self.was_not_compared else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    names = [*(case.name for case in CASES), MICRO_BATCH]
    parser.add_argument("--case", action="append", choices=names, help="only this; repeatable")
    parser.add_argument("--system", action="append", choices=KINDS, help="likewise")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--warm", type=int, default=WARM_ROUNDS, help="rounds that do not count")
    options = parser.parse_args()
    wanted = options.case or names
    report = Report()
    # As a package is that was installed: pip compiles it, an editable install does not.
    compileall.compile_dir(Path(tidelog.__file__).parent, quiet=1)
    chosen = with_yardsticks(wanted)
    shapes = {SMALL, *(case.shape for case in chosen if case.shape != WRITTEN)}
    measured: dict[str, Speeds] = {}
    with contestants(options.system or list(KINDS), shapes) as taking_part:
        warm(chosen, taking_part, options.warm)
        for case in chosen:
            speeds = measure(case, taking_part, options.rounds)
            measured[case.name] = {**measured.get(case.yardstick, {}), **speeds}
            if not case.is_yardstick_only:
                report.add(case, measured[case.name])
        if MICRO_BATCH in wanted:
            ours = [contestant for contestant in taking_part if contestant.is_ours]
            found = measure_micro_batches(ours[0], options.rounds) if ours else {}
            report.add_micro_batches(found)
    Console(width=140).print(report.table)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
