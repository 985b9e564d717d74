"""Every part of raft does what state and time ask for, until nothing is left to do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidelog.env import Now
from tidelog.raft.gate import Action

Work = Callable[[Now], bool]


class Settling:
    """Parts that work in turn, and news that the listener hears when they are through."""

    def __init__(self) -> None:
        self.works: Sequence[Work] = ()
        """Each says whether it found anything to do."""
        self._news: deque[Action] = deque()
        self._is_settling = self._is_stirred = False

    def tell(self, news: Action) -> None:
        """Once all is settled."""
        self._news.append(news)

    def settle(self, now: Now) -> bool:
        """False if that is under way, and goes on with what has changed."""
        self._is_stirred = True
        if self._is_settling:
            return False
        self._is_settling = True
        try:
            while self._is_stirred or self._news:
                if self._is_stirred:
                    self._is_stirred = False
                    self._work(now)
                else:
                    self._news.popleft()(now)
        finally:
            self._is_settling = False
        return True

    def _work(self, now: Now) -> None:
        """Until all have been idle, one after the other: what one does may concern any other."""
        turn = idle = 0
        while idle < len(self.works):
            if self.works[turn](now):
                idle = 0
            else:
                idle += 1
                turn = turn + 1 if turn + 1 < len(self.works) else 0
