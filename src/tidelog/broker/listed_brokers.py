"""Which brokers clients are told of: who has just died stays in the list for a while (ADR 14)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Now
from tidelog.metadata.image import Broker as Registration

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

LISTED_MS = 2_000
"""For how long. Clients that lose a leader look for the next one at once, or within a second; while
the dead one is listed they also try to reach it, ever less often, and so find it late when it is
back."""


class Death(NamedTuple):
    """Of one life of a broker: who registers anew is another."""

    broker_epoch: int
    listed_end_ms: int


class ListedBrokers:
    """Those that are alive, and those that have just died."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._known = broker.metadata.image.brokers
        self._deaths: dict[int, Death] = {}

    def metadata_changed(self, now: Now) -> None:
        """Note who was fenced; not who had said that it would stop."""
        before, self._known = self._known, self._broker.metadata.image.brokers
        if before is self._known:
            return
        end_ms = now.monotonic_ms + LISTED_MS
        for broker_id, broker in self._known.items():
            earlier = before.get(broker_id)
            was_alive = earlier is not None and not earlier.fenced
            if broker.fenced and was_alive and not broker.in_controlled_shutdown:
                self._deaths[broker_id] = Death(broker.broker_epoch, end_ms)

    def at(self, now: Now) -> Iterator[Registration]:
        self.metadata_changed(now)  # it may be known here before it is acted upon
        for broker in self._known.values():
            if not broker.fenced or self._is_listed(broker, now):
                yield broker

    def _is_listed(self, broker: Registration, now: Now) -> bool:
        death = self._deaths.get(broker.broker_id)
        return (
            death is not None
            and death.broker_epoch == broker.broker_epoch
            and now.monotonic_ms < death.listed_end_ms
        )
