"""Threads for disk work: as many at a time as there are, first come first served."""

from __future__ import annotations

from tidelog.sim.disk_threads import DiskThreads
from tidelog.sim.timeline import Action


def test_no_more_work_is_under_way_than_there_are_threads() -> None:
    under_way: list[Action] = []
    done: list[int] = []
    threads = DiskThreads(2, under_way.append)
    for number in range(5):
        threads.do(lambda number=number: done.append(number))
    most = 0
    while under_way:
        most = max(most, len(under_way))
        under_way.pop()()  # whichever thread is the first
    assert most == 2
    assert done == [0, 1, 2, 3, 4], "in the order in which it was asked for"


def test_threads_that_had_nothing_to_do_begin_again() -> None:
    under_way: list[Action] = []
    done: list[str] = []
    threads = DiskThreads(1, under_way.append)
    for word in ("first", "second"):
        threads.do(lambda word=word: done.append(word))
        under_way.pop()()
        assert not under_way
    assert done == ["first", "second"]
