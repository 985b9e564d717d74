"""A run of many seeds judges itself: one that reached too little fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from tidelog.cli import simulating
from tidelog.cli.main import tidelog
from tidelog.cli.simulating import Work, run_many
from tidelog.sim.counters import SOMETIMES
from tidelog.sim.plan import FAULTS
from tidelog.sim.simulator import Result
from tidelog.sim.violation import Violation

WANTED = (*FAULTS, *SOMETIMES)
GOOD = Result(
    seed=0,
    digest="",
    steps=1000,
    simulated_us=30_000_000,
    recovery_us=2_500_000,
    client_requests=1500,
    faults=dict.fromkeys(FAULTS, 2),
    branches=dict.fromkeys(SOMETIMES, 1),
    operations={"Produce": 500},
    wanted=WANTED,
    violation=None,
)


def run(monkeypatch: pytest.MonkeyPatch, result: Result, seeds: int = 200) -> int:
    def simulated(work: Work) -> tuple[Result, float]:
        return replace(result, seed=work[0]), 1.0

    monkeypatch.setattr(simulating, "timed", simulated)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    return run_many(range(1, seeds + 1), None, 30)


def test_a_run_that_reached_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, GOOD) == 0
    shown = capsys.readouterr()
    assert "200 seeds, 0 violated; 6,000 simulated seconds" in shown.out
    assert "30.0 simulated seconds a second of one core" in shown.out
    assert "the slowest recovery took 2.5 s (seed 1)" in shown.out
    assert "each with 50 requests of clients" in shown.out
    assert f"{400:>9}  kill" in shown.out
    assert "175 of 200 seeds" in shown.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"faults": {"kill": 19}}, "the median seed injected 19 faults, fewer than 20"),
        ({"operations": {"Produce": 499}}, "acknowledged 499 operations, not 500"),
        ({"branches": {}}, "never reached: an ISR shrank"),
        ({"faults": {"kill": 50}}, "never reached: wiped disk"),
    ],
)
def test_a_run_that_says_little_fails(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, dict[str, int]],
    words: str,
) -> None:
    assert run(monkeypatch, replace(GOOD, **change)) == 1  # type: ignore[arg-type]
    assert words in capsys.readouterr().err
    assert run(monkeypatch, replace(GOOD, **change), seeds=2) == 0  # type: ignore[arg-type]


def test_a_violation_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = replace(GOOD, violation=Violation("log matching", "two batches differ"))
    assert run(monkeypatch, found, seeds=3) == 1
    shown = capsys.readouterr().err
    assert "seed 2: violated at step 1000, after 30.000 s" in shown
    assert "invariant: log matching" in shown
    assert "again: tidelog simulate --seed 2 --seconds 30 --trace" in shown


class Gone(BaseException):
    """What no simulation expects."""


def fail(work: Work) -> tuple[Result, float]:
    raise Gone(f"seed {work[0]}")


def test_a_process_that_fails_ends_the_run_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulating, "timed", fail)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(Gone, match="seed"):
        run_many(range(1, 4), None, 30)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "1", "--seeds", "1-2"], "give --seed or --seeds, not both"),
        (["--seeds", "1-2", "--trace"], "--trace shows one seed"),
        (["--seeds", "5-2"], "is no range of seeds; write 1-300 for example"),
    ],
)
def test_senseless_options_are_refused(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(tidelog, ["simulate", *arguments])
    assert result.exit_code == 2
    assert words in result.output
