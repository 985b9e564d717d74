"""Whether a broker that leaves would wait in vain. The active controller decides who leads in its
place; where most voters are dead there is none, and there will be none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.env import Now

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.lifecycle")

LOOK_MS = 200
"""Without an answer of the active controller, until the voters are looked at; and once more."""


class Leaving:
    """Looks at the voters for as long as somebody waits."""

    def __init__(self, broker: Broker, is_waiting: Callable[[Now], bool]) -> None:
        self._broker = broker
        self._is_waiting = is_waiting
        """For an answer of the active controller, and for how long already."""
        self.is_hopeless = False

    def look_later(self, now: Now) -> None:
        self._broker.schedule.at(now.monotonic_ms + LOOK_MS, self._look)

    def _look(self, now: Now) -> None:
        """A refused connection proves that a process is gone."""
        raft, peers = self._broker.metadata.raft, self._broker.runtime.peers
        others = [one for one in raft.voters.ids if one != self._broker.node_id]
        addresses = {one: raft.voters.address(one, raft.config.listener_name) for one in others}
        unheard = {one: address for one, address in addresses.items() if address is not None}
        if not self._is_waiting(now) or not unheard:
            self.look_later(now)
            return
        left, dead = len(unheard), []

        def looked(voter_id: int, was_refused: bool, now: Now) -> None:
            nonlocal left
            left -= 1
            if was_refused:
                dead.append(voter_id)
            if left:
                return
            alive = set(raft.voters.ids) - set(dead)
            if self._is_waiting(now) and not raft.voters.is_majority(alive):
                self.is_hopeless = True
                listed = ", ".join(map(str, sorted(dead)))
                log.warning(
                    "nobody can take over what this node leads: no controller is active, and of"
                    " the voters %s are not running",
                    listed,
                )
            else:
                self.look_later(now)

        for voter_id, address in unheard.items():
            peers.probe(address.host, address.port, partial(looked, voter_id), now)
