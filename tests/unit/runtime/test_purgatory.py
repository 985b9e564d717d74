"""What waits, until when, and what is forgotten."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.runtime.alarm import Alarm
from tidelog.runtime.purgatory import DONE_MAX, EXPIRED_A_STEP_MAX, Delayed, Purgatory
from tidelog.runtime.schedule import Schedule
from tidelog.wire.declare import Message
from tidelog.wire.headers import ResponseHeader

DONE = ResponseHeader(correlation_id=1)
EXPIRED = ResponseHeader(correlation_id=2)


class Waiting(Delayed):
    forgotten = 0

    def expire(self, now: Now) -> Message:
        return EXPIRED

    def forget(self) -> None:
        self.forgotten += 1


def at(milliseconds: int) -> Now:
    return Now(milliseconds, 0)


def test_the_first_answer_counts() -> None:
    purgatory = Purgatory(Alarm())
    delayed = Waiting(10)
    purgatory.add(delayed)
    purgatory.complete(delayed, DONE)
    purgatory.complete(delayed, EXPIRED)
    purgatory.expire(at(20))
    assert purgatory.completed == [delayed]
    assert (delayed.answer, delayed.forgotten) == (DONE, 1)


def test_deadlines_come_in_their_order() -> None:
    purgatory = Purgatory(Alarm())
    late, early = Waiting(20), Waiting(10)
    purgatory.add(late)
    purgatory.add(early)
    purgatory.expire(at(9))
    assert purgatory.completed == []
    assert purgatory.next_deadline_ms == 10
    purgatory.expire(at(10))
    assert purgatory.completed == [early]
    purgatory.expire(at(30))
    assert [delayed.answer for delayed in purgatory.completed] == [EXPIRED, EXPIRED]
    assert purgatory.next_deadline_ms is None


def test_a_cancelled_one_gets_no_answer() -> None:
    purgatory = Purgatory(Alarm())
    delayed = Waiting(10)
    purgatory.add(delayed)
    purgatory.cancel(delayed)
    purgatory.complete(delayed, DONE)
    purgatory.expire(at(20))
    assert purgatory.completed == []
    assert delayed.forgotten == 1


def test_what_is_done_does_not_pile_up_behind_far_deadlines() -> None:
    purgatory = Purgatory(Alarm())
    first = Waiting(1)
    purgatory.add(first)
    for count in range(20 * DONE_MAX):
        delayed = Waiting(1 << 40)
        purgatory.add(delayed)
        if count % 2:
            purgatory.complete(delayed, DONE)
        else:
            purgatory.cancel(delayed)
    assert len(purgatory) <= 2 * DONE_MAX + 2
    purgatory.completed.clear()
    purgatory.expire(at(1))
    assert purgatory.completed == [first]


def with_done(count: int) -> Purgatory:
    """With so many that are done behind one that was not until now."""
    purgatory = Purgatory(Alarm())
    first, *others = (Waiting(deadline_ms) for deadline_ms in range(500, 501 + count))
    for delayed in (first, *others):
        purgatory.add(delayed)
    for delayed in (*others, first):
        purgatory.complete(delayed, DONE)
    return purgatory


def test_what_is_done_does_not_wait_for_a_tick() -> None:
    purgatory = with_done(300)
    for deadline_ms in range(1000, 1000 + 400):
        delayed = Waiting(deadline_ms)
        purgatory.add(delayed)
        purgatory.complete(delayed, DONE)
    assert len(purgatory) <= 2


def test_nobody_drops_hundreds_at_once_of_what_is_done() -> None:
    purgatory = with_done(300)
    purgatory.add(Waiting(5000))
    assert len(purgatory) >= 300
    assert purgatory.next_deadline_ms is not None
    assert len(purgatory) >= 300 - EXPIRED_A_STEP_MAX
    for _ in range(20):
        deadline_ms = purgatory.next_deadline_ms
    assert deadline_ms == 5000


def test_tasks_run_in_the_order_of_their_times() -> None:
    ran: list[str] = []
    schedule = Schedule(Alarm())
    schedule.at(20, lambda now: ran.append("late"))
    schedule.at(10, lambda now: ran.append("early"))
    schedule.every(15, 15, lambda now: ran.append("again"))
    schedule.run(at(9))
    assert ran == []
    schedule.run(at(25))
    assert ran == ["early", "again", "late"]
    assert schedule.next_ms == 40
    schedule.run(at(100))
    assert ran[3:] == ["again"]


def test_a_job_in_pieces_is_one_piece_a_run() -> None:
    pieces: list[int] = []
    schedule = Schedule(Alarm())

    def piece(now: Now) -> None:
        pieces.append(now.monotonic_ms)
        if len(pieces) < 3:
            schedule.at(now.monotonic_ms, piece)

    schedule.at(5, piece)
    for expected in (1, 2, 3):
        schedule.run(at(5))
        assert len(pieces) == expected
    assert schedule.next_ms is None
