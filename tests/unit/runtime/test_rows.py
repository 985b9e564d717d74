"""Between too much and little enough lies a range, in which nobody is told anything."""

from __future__ import annotations

import pytest

from tidelog.runtime.rows import NO_MESSAGE, WAITING_BYTES_MAX, WAITING_MAX, Rows
from tidelog.wire.request import Request

REQUEST = Request(0, 0, 0, None, NO_MESSAGE)


def full(count: int, size: int) -> Rows:
    """Answers of one connection behind two that are not there yet, the second one half-way."""
    rows = Rows()
    for number in range(count):
        place = rows.add(1, REQUEST)
        if number not in (0, count // 4):
            rows.fill(1, place, [bytes(size)])
    return rows


@pytest.mark.parametrize(("count", "size"), [(WAITING_MAX + 1, 1), (8, WAITING_BYTES_MAX // 5)])
def test_a_row_that_was_full_has_no_room_before_it_is_half_empty(count: int, size: int) -> None:
    rows = full(count, size)
    assert rows.is_full(1)
    assert not rows.has_room(1)
    rows.fill(1, rows[1][0], [b""])
    assert len(rows.take_ready(1)) == count // 4
    assert not rows.is_full(1)
    assert not rows.has_room(1)
    rows.fill(1, rows[1][0], [b""])
    rows.take_ready(1)
    assert rows.has_room(1)
    assert not rows
    assert rows.bytes == 0
