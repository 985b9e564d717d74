"""What is fast: where to wait for more pays off, and where it only costs time."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.runtime.pace import Pace


def fast_moments(steps_by_ms: list[int]) -> list[int]:
    """The milliseconds in which a node finds its steps fast."""
    pace, found = Pace(), set()
    for ms, steps in enumerate(steps_by_ms):
        for _ in range(steps):
            pace.steps += 1
            if pace.is_fast(Now(ms, ms)):
                found.add(ms)
    return sorted(found)


def test_a_thousand_records_a_second_on_three_nodes_are_not_fast() -> None:
    """Not even when a moment's records come at once. A node takes five steps for a record that it
    leads, and one for each of the others."""
    stalled = [2] * 100 + [0] * 5 + [12] + [2] * 100
    assert fast_moments(stalled) == []


def test_thousands_of_requests_a_second_are_fast() -> None:
    found = fast_moments([20] * 100)
    assert found[0] < 8
    assert len(found) > 90


def test_who_was_fast_is_not_for_ever() -> None:
    found = fast_moments([20] * 50 + [2] * 100)
    assert max(found) < 70
