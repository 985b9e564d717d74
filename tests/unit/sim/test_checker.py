"""The checker on histories that are made up: each wrong in one way."""

from __future__ import annotations

import pytest

from tidelog.sim.checker import check
from tidelog.sim.history import History, Outcome, Place, Seen, Written
from tidelog.sim.violation import Violation
from tidelog.types import Uuid

PLACE = Place(Uuid(bytes(16)), 0)
READER = "reader"


def value(number: int) -> bytes:
    return b"p.1.%d.x" % number


def written(number: int, offset: int = -1, **fields: object) -> Written:
    outcome = Outcome.ACKNOWLEDGED if offset >= 0 else Outcome.UNKNOWN
    given = {"acks": -1, "session": 1, "outcome": outcome, "offset": offset, **fields}
    return Written("p", PLACE, (value(number),), **given)  # type: ignore[arg-type]


def history(*sent: Written, read: list[int]) -> History:
    """Of one producer, and a reader that gets these numbers from offset 0 on."""
    seen = [Seen(READER, PLACE, offset, value(number)) for offset, number in enumerate(read)]
    return History(written=list(sent), seen=seen)


def judge(made: History, *, excused: tuple[int, ...] = (), start: int = 0) -> None:
    def excuse(place: Place, offset: int) -> str | None:
        return "a test" if offset in excused else None

    check(made, READER, excuse, lambda place: start)


def test_a_sound_history() -> None:
    judge(history(written(1, 0), written(2), written(3, 1), written(4), read=[1, 3, 4]))


def test_a_lost_record() -> None:
    made = history(written(1, 0), written(2, 1), read=[1])
    with pytest.raises(Violation, match="not lost"):
        judge(made)
    judge(made, excused=(1,))
    judge(made, start=2)
    made.deleted_topics[PLACE.topic_id] = None
    judge(made)


def test_what_was_not_promised_may_be_lost() -> None:
    judge(history(written(1, 0), written(2, 1, is_durable=False), read=[1]))


def test_a_record_at_another_offset() -> None:
    with pytest.raises(Violation, match=r"acknowledged at 1, is at \[0\]"):
        judge(history(written(1, 1), written(2, 0), read=[1, 2]))


def test_a_record_twice() -> None:
    with pytest.raises(Violation, match="writes once"):
        judge(history(written(1, 0), read=[1, 1]))
    judge(history(written(1, 0, session=None), read=[1, 1]))


def test_records_out_of_order() -> None:
    with pytest.raises(Violation, match="keep their order"):
        judge(history(written(1), written(2), read=[2, 1]))
    judge(history(written(1), written(2, session=2), read=[2, 1]))


def test_a_refused_record_that_is_there() -> None:
    refused = written(1)
    refused.outcome = Outcome.REFUSED
    with pytest.raises(Violation, match="what was refused"):
        judge(history(refused, read=[1]))


def test_two_values_at_an_offset() -> None:
    made = history(written(1, 0), written(2), read=[1])
    made.seen.append(Seen("another", PLACE, 0, value(2)))
    with pytest.raises(Violation, match="never changes"):
        judge(made)
    judge(made, excused=(0,))
