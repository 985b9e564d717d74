"""Random lives of quorums with all invariants on. More seeds: `swarm.run_seed`."""

from __future__ import annotations

import pytest
from tests.unit.raft.swarm import run_seed


@pytest.mark.parametrize("seed", range(12))
def test_a_quorum_keeps_its_promises(seed: int) -> None:
    counts = run_seed(seed)
    assert counts["elections"] > 0
    assert counts["committed"] > 10
