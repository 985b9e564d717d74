"""Requests that wait: for records to come, for replicas, for metadata to be committed.

What completes them is the event that they wait for, never a timer; the timer only ends the wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from tidelog.env import Now
from tidelog.runtime.alarm import Alarm
from tidelog.wire.declare import Message

EXPIRED_A_STEP_MAX = 30
DONE_MAX = 1000
"""So many deadlines of what is done are kept before they are thrown out."""
DROPPED_AN_ADD_MAX = 2
"""More than one, so that they grow fewer; few, so that no request pays for a thousand others."""


class Delayed:
    """An answer to come. It is completed once, by whichever comes first."""

    waits_for_disk = False
    """Whether it is the disk that will complete it, soon: a node that stops waits for that."""
    is_large = False
    """Whether its answer has so many elements that it is encoded in pieces."""

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        """By the monotonic clock."""
        self.answer: Message | None = None
        self.parts: list[Any] | None = None
        """The answer, where it is encoded already."""
        self.is_done = False
        self.then: Callable[[Message, Now], None] | None = None
        """Whom to tell the answer, where it is not a client that waits."""

    def expire(self, now: Now) -> Message | None:
        """The answer when time is up; None if it takes more than a step to make it."""
        raise AssertionError(f"{type(self).__name__} does not say")

    def forget(self) -> None:
        """Called when the answer is given or the client is gone: stop watching."""


class Purgatory:
    """Deadlines of all that waits, and what was completed since the node looked last."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._deadlines: list[tuple[int, int, Delayed]] = []
        self._count = 0
        self._done_count = 0
        """How many of them need no deadline any more."""
        self.completed: list[Delayed] = []
        """In the order of completion; the node takes them at the end of each step."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, delayed: Delayed) -> None:
        self._drop_done(DROPPED_AN_ADD_MAX)
        self._count += 1
        heapq.heappush(self._deadlines, (delayed.deadline_ms, self._count, delayed))
        self._alarm.not_later_than(delayed.deadline_ms)
        if self._done_count > DONE_MAX and self._done_count * 2 > len(self._deadlines):
            # A client may name a deadline years ahead: what is done must not wait for it.
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_done]
            heapq.heapify(self._deadlines)
            self._done_count = 0

    def complete(self, delayed: Delayed, answer: Message) -> None:
        """Give the answer; the first one counts."""
        if delayed.is_done:
            return
        delayed.answer = answer
        self._complete(delayed)

    def complete_encoded(self, delayed: Delayed, parts: list[Any]) -> None:
        """The same with an answer that needs no encoding."""
        if not delayed.is_done:
            delayed.parts = parts
            self._complete(delayed)

    def _complete(self, delayed: Delayed) -> None:
        delayed.is_done = True
        self._done_count += 1
        delayed.forget()
        self.completed.append(delayed)

    def cancel(self, delayed: Delayed) -> None:
        """Its client is gone."""
        if not delayed.is_done:
            delayed.is_done = True
            self._done_count += 1
            delayed.forget()

    def expire(self, now: Now) -> None:
        """Answer what has waited long enough, as far as a step allows: the next one comes at
        once, because the deadline of the others has passed."""
        for _ in range(EXPIRED_A_STEP_MAX):
            if not self._deadlines or self._deadlines[0][0] > now.monotonic_ms:
                return
            _, _, delayed = heapq.heappop(self._deadlines)
            self._done_count -= 1  # as it was counted when it was done, or will be
            if not delayed.is_done:
                self.end(delayed, now)

    def end(self, delayed: Delayed, now: Now) -> None:
        """Its time is up."""
        answer = delayed.expire(now)
        if answer is not None:
            self.complete(delayed, answer)

    @property
    def next_deadline_ms(self) -> int | None:
        """When expire has something to do again; earlier where much is done that is dropped on the
        way, a step's worth at a time."""
        self._drop_done(EXPIRED_A_STEP_MAX)
        return self._deadlines[0][0] if self._deadlines else None

    def _drop_done(self, count_max: int) -> None:
        deadlines = self._deadlines
        while count_max and deadlines and deadlines[0][2].is_done:
            heapq.heappop(deadlines)
            self._done_count -= 1
            count_max -= 1
