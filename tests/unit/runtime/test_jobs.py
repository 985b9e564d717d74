"""Work in pieces: what time it is for a piece that is done steps after the work began."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.runtime.alarm import Alarm
from tidelog.runtime.jobs import STEP_COST_MAX, Jobs
from tidelog.slices import Slices


def at(ms: int) -> Now:
    return Now(ms, 10**6 + ms)


def test_a_piece_knows_the_time_of_the_step_that_does_it() -> None:
    jobs, seen = Jobs(Alarm()), []

    def work(now: Now, pieces: int) -> Slices[None]:
        for _ in range(pieces):
            seen.append(jobs.fresh(now))
            yield STEP_COST_MAX

    assert jobs.fresh(at(5)) == at(5), "outside of any"
    jobs.start(work(at(10), 3), at(10))
    jobs.run(at(20))
    jobs.run(at(30))
    assert seen == [at(10), at(20), at(30)]


def test_who_begins_another_job_does_not_turn_the_time_back() -> None:
    jobs, seen = Jobs(Alarm()), []

    def other() -> Slices[None]:
        yield 1

    def work(now: Now) -> Slices[None]:
        yield STEP_COST_MAX
        jobs.start(other(), now)
        seen.append(jobs.fresh(now))

    jobs.start(work(at(10)), at(10))
    jobs.run(at(20))
    assert seen == [at(20)]
