"""What the benchmark of Spark compares, and when it says that a floor is met."""

from __future__ import annotations

import pytest
from benchmarks.spark.__main__ import Report, ratio
from benchmarks.spark.cases import CASES, RATE, with_yardsticks
from benchmarks.spark.systems import ON_APACHE, ON_TIDELOG, OURS

READ, SCAN = CASES[:2]


def speeds(ours: float, apache: float, tidelog: float) -> dict[str, list[float]]:
    return {OURS: [ours], ON_APACHE: [apache], ON_TIDELOG: [tidelog]}


def cells(report: Report) -> list[str]:
    return [str(cell) for column in report.table.columns for cell in column.cells]


def test_floors_that_are_met_and_missed():
    report = Report()
    report.add(READ, speeds(200, 100, 100))
    assert report.exit_code == 0
    report.add(SCAN, speeds(199, 100, 100))
    assert report.exit_code == 1


@pytest.mark.parametrize("missing", [(OURS,), (ON_APACHE,), (ON_TIDELOG,), (ON_APACHE, ON_TIDELOG)])
def test_a_floor_that_was_not_compared_is_not_met(missing):
    report = Report()
    found = speeds(200, 100, 100)
    report.add(READ, {name: found[name] for name in found if name not in missing})
    assert "[bold red]not compared" in cells(report)
    assert report.exit_code == 2


def test_micro_batches_without_ours_are_not_compared():
    report = Report()
    report.add_micro_batches({})
    assert report.exit_code == 2
    report.add_micro_batches({OURS: [3.0], RATE: [1.0]})
    assert report.exit_code == 1


def test_a_case_brings_what_it_is_compared_with():
    assert [(c.name, c.is_yardstick_only) for c in with_yardsticks(["scan"])] == [
        ("read", True),
        ("scan", False),
    ]
    assert [c.is_yardstick_only for c in with_yardsticks(["read", "scan"])] == [False, False]
    assert len(with_yardsticks([case.name for case in CASES])) == len(CASES)


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    assert ratio({OURS: [4, 3, 10], ON_APACHE: [1, 3, 5]}, ON_APACHE) == 2
