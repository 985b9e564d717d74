"""A short run of what `make chaos` does for longer; and replicas that differ are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.replicas import differences
from tests.chaos.run import Run

SECONDS = 12


@pytest.mark.slow
def test_a_cluster_survives_what_happens_to_it(tmp_path: Path) -> None:
    said: list[str] = []
    run = Run(tmp_path, seed=1, say=said.append)
    assert run.go(SECONDS) == [], said
    assert run.records > 0
    assert sum(run.rounds.values()) > 2


def test_replicas_are_compared_byte_by_byte(tmp_path: Path) -> None:
    replicas = [tmp_path / f"node-{node}" for node in (1, 2)]
    for directory in replicas:
        (directory / "t-0").mkdir(parents=True)
    (replicas[0] / "t-0" / "0.log").write_bytes(b"abcdef")
    (replicas[1] / "t-0" / "0.log").write_bytes(b"abc")
    assert differences(replicas, "t", 0)[0].endswith("(3 bytes) differ at 3")
    (replicas[1] / "t-0" / "3.log").write_bytes(b"dex")
    assert differences(replicas, "t", 0)[0].endswith("(6 bytes) differ at 5")
    (replicas[1] / "t-0" / "3.log").write_bytes(b"def")
    assert differences(replicas, "t", 0) == [], "a segment may end anywhere"
