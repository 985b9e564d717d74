"""A node that is told to stop hands over what it leads, and waits for nobody who cannot come."""

from __future__ import annotations

import pytest
from tests.scenarios.director import Director

from tidelog.broker.leaving import LOOK_MS
from tidelog.sim.timeline import MS


@pytest.fixture
def director() -> Director:
    director = Director()
    director.play("nodes 3 controllers=all")
    director.play("topic replicas=1,2,3")
    return director


def ms_to_stop(director: Director, node: int) -> int:
    began_us = director.timeline.now_us
    director.play(f"stop {node}")
    return (director.timeline.now_us - began_us) // MS


@pytest.mark.parametrize("is_active", [True, False])
def test_who_is_left_without_a_majority_does_not_wait_for_one(director, is_active, caplog):
    active = director._controller
    last = active if is_active else active % 3 + 1
    dead = sorted({1, 2, 3} - {last})
    for node in dead:
        director.play(f"kill {node}")
    taken_ms = ms_to_stop(director, last)
    assert taken_ms < 2 * LOOK_MS
    assert f"of the voters {dead[0]}, {dead[1]} are not running" in caplog.text


def test_while_a_majority_may_be_there_it_is_waited_for(director, caplog):
    """Both others stand still, and one goes on after a while: it takes over."""
    last = next(node for node in (1, 2, 3) if node != director._controller)
    others = [node for node in (1, 2, 3) if node != last]
    for node in others:
        director.play(f"pause {node}")
    director.timeline.after(4_000 * MS, lambda: director.play(f"resume {others[0]}"))
    director.timeline.after(4_000 * MS, lambda: director.play(f"resume {others[1]}"))
    assert ms_to_stop(director, last) >= 4_000
    assert "are not running" not in caplog.text
    director.play("until-led")
    assert director._state.leader in others


def test_one_dead_voter_of_three_keeps_nobody_from_handing_over(director, caplog):
    dead = next(node for node in (1, 2, 3) if node != director._controller)
    director.play(f"kill {dead}")
    last = next(node for node in (1, 2, 3) if node not in (dead, director._controller))
    ms_to_stop(director, last)
    assert "are not running" not in caplog.text
    assert director._state.leader == director._controller
