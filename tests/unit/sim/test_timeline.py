"""Virtual time and clocks that are wrong."""

from __future__ import annotations

from tidelog.sim.timeline import MS, SECOND, START_WALL_MS, Clock, Timeline


def test_actions_happen_in_the_order_of_their_times_and_of_their_making() -> None:
    timeline, done = Timeline(), []
    timeline.after(5, lambda: done.append("c"))
    timeline.after(3, lambda: done.append("a"))
    timeline.after(3, lambda: (done.append("b"), timeline.after(0, lambda: done.append("b2"))))
    timeline.after(9, lambda: done.append("too late"))
    timeline.run(8)
    assert done == ["a", "b", "b2", "c"]
    assert timeline.now_us == 8


def test_a_clock_drifts_and_is_set_wrongly() -> None:
    timeline = Timeline()
    fast = Clock(timeline, drift_ppm=20_000, wall_skew_ms=-500)
    timeline.run(10 * SECOND)
    assert fast.now().monotonic_ms == 10_200
    assert fast.now().wall_ms == START_WALL_MS + 10_000 - 500


def test_a_timer_is_never_early() -> None:
    for drift_ppm in (-20_000, -1, 0, 1, 20_000):
        timeline = Timeline()
        clock = Clock(timeline, drift_ppm=drift_ppm)
        timeline.run(12_345)
        for due_ms in (13, 500, 977):
            delay_us = clock.delay_us(due_ms)
            timeline.run(timeline.now_us + delay_us)
            assert clock.now().monotonic_ms == due_ms
        assert clock.delay_us(1) == 0
        assert timeline.now_us < 1000 * MS
