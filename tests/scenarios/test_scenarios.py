"""Every scenario says what its file says. TIDELOG_REWRITE=1 writes the files anew, to be read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenarios.director import perform
from tests.sim.mutants import MUTANTS

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))
MUTANT = re.compile(r"# mutant: (\S+)\n")
ROOT = Path(__file__).parents[2]


def performed(path: Path) -> str:
    """In a process of its own, if something is to be planted first."""
    mutant = MUTANT.match(path.read_text(encoding="utf-8"))
    if mutant is None:
        return perform(path)
    assert mutant[1] in MUTANTS
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.mutated", mutant[1], "scenario", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_happens_as_it_is_written(path: Path) -> None:
    said = performed(path)
    if os.environ.get("TIDELOG_REWRITE"):
        path.write_text(said, encoding="utf-8")
    assert said == path.read_text(encoding="utf-8")


def test_an_unclean_election_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """The controller knows who had the records, the new leader where its own end, and who had
    more which ones it gives up."""
    with caplog.at_level("INFO"):
        perform(next(path for path in SCENARIOS if path.stem.startswith("16-")))
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if "lost" in line or "gives up" in line] == [
        "unclean election: broker 3 leads t-0 in leader epoch 3. What it lacks of the records up to"
        " leader epoch 2 is lost; broker 2 had them last",
        "t-0 is led from here by an unclean election: what others have from offset 1 on is lost",
        "t-0 gives up the records 1 to 1: broker 3 leads without having them",
    ]


def test_the_documentation_names_every_scenario() -> None:
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    assert [path.name for path in SCENARIOS if path.name not in page] == []
