"""What the benchmark of Spark compares, and when it says that a floor is met."""

from __future__ import annotations

import pytest
from benchmarks.spark.__main__ import Report, ratio
from benchmarks.spark.cases import CASES, OVERHEAD_MAX, RATE, with_yardsticks
from benchmarks.spark.systems import ON_APACHE, ON_TIDELOG, OURS

READ, SCAN = CASES[:2]


def speeds(ours: float, apache: float, tidelog: float) -> dict[str, list[float]]:
    return {OURS: [ours], ON_APACHE: [apache], ON_TIDELOG: [tidelog]}


def cells(report: Report) -> list[str]:
    return [str(cell) for column in report.table.columns for cell in column.cells]


def test_what_is_promised():
    """To whoever uses Spark's connector on Apache Kafka today, and on Tidelog."""
    assert {case.name: tuple(case.floor) for case in CASES} == {
        "read": (1.6, 1.3),
        "read-large": (2.0, 1.3),
        "stream": (1.4, None),
        "parquet": (0.9, None),
        "sink": (1.0, None),
        "scan": (2.0, None),
        "count": (2.5, None),
    }
    assert OVERHEAD_MAX == 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_figure_is_shown_for_both_yardsticks_beside_what_was_promised(case):
    report = Report()
    report.add(case, speeds(3000, 1000, 500))
    limits = ["" if floor is None else f"≥ {floor:.1f}" for floor in case.floor]
    shown = [case.title, "3,000", "1,000", "3.00", limits[0], "500", "6.00", limits[1]]
    assert cells(report) == shown
    assert report.exit_code == 0
    for yardstick, floor in zip((ON_APACHE, ON_TIDELOG), case.floor, strict=True):
        missed = speeds(3000, 1000, 500) | {yardstick: [3000 / (floor or 0.1) * 1.01]}
        report = Report()
        report.add(case, missed)
        assert report.exit_code == (floor is not None)


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
