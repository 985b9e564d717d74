"""Whether those that Metadata names as leaders are there: each is asked once more (ADR 14)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Now
from tidelog.errors import PeerFailure
from tidelog.runtime.peers import Peer
from tidelog.wire.declare import Message
from tidelog.wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

REQUEST = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
"""What every broker answers at once."""
TIMEOUT_MS = 100
"""Who does not answer by then may be busy, and is named."""
CHECK_MS_MAX = 2 * TIMEOUT_MS
"""As a check may have to wait for the end of the one before."""
DOUBT_MS = 500
"""For how long who is gone is not named. Others lead within a tenth of a second if it is dead; if
they do not, it may be that only this broker cannot reach it."""
HELD_PARTITIONS_MAX = 100_000
"""In all answers that wait for a check; beyond it they are given without one."""

Then = Callable[[Now], None]


class Doubt(NamedTuple):
    """Of one life of a broker, until it answers again."""

    broker_epoch: int
    end_ms: int


class Check:
    """Of one broker: who waits for its answer, and who has come since it was asked."""

    def __init__(self, first: Then) -> None:
        self.waiting = [first]
        self.later: list[Then] = []
        self.is_repeated = False


class LeaderChecks:
    """One request at a time to each broker, however many clients ask."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._checks: dict[int, Check] = {}
        self._doubts: dict[int, Doubt] = {}
        self.held_partitions = 0

    def doubted(self, now: Now) -> frozenset[int]:
        """Those that are better not named as leaders."""
        image = self._broker.image
        return frozenset(
            broker_id
            for broker_id, doubt in self._doubts.items()
            if now.monotonic_ms < doubt.end_ms
            if image.broker_epoch(broker_id) == doubt.broker_epoch
        )

    def check(self, broker_ids: Collection[int], then: Then, now: Now) -> bool:
        """Call then, later than this call, when all of them have answered or will not; False if
        there is nobody to ask."""
        asked = [(one, peer) for one in sorted(broker_ids) if (peer := self._peer(one)) is not None]
        left = len(asked)

        def one_done(now: Now) -> None:
            nonlocal left
            left -= 1
            if not left:
                then(now)

        for broker_id, peer in asked:
            check = self._checks.get(broker_id)
            if check is None:
                check = self._checks[broker_id] = Check(one_done)
                self._ask(broker_id, check, peer, now)
            else:
                # It may have been answered before the client saw what made it ask.
                check.later.append(one_done)
        return bool(asked)

    def _peer(self, broker_id: int) -> Peer | None:
        broker = self._broker
        if broker_id == broker.node_id:
            return None
        registered = broker.image.brokers.get(broker_id)
        name = broker.config.inter_broker_name
        point = None if registered is None else registered.endpoint(name)
        if point is None:
            return None
        client_id = f"broker-{broker.node_id}-check"
        return broker.runtime.peers.peer(point.host, point.port, client_id)

    def _ask(self, broker_id: int, check: Check, peer: Peer, now: Now) -> None:
        peer.send(REQUEST, partial(self._answered, broker_id, check, peer), now, TIMEOUT_MS)

    def _answered(
        self, broker_id: int, check: Check, peer: Peer, answer: Message | PeerFailure, now: Now
    ) -> None:
        if answer is PeerFailure.LOST and not check.is_repeated:
            # It may only have found this connection idle.
            check.is_repeated = True
            self._ask(broker_id, check, peer, now)
            return
        if isinstance(answer, Message):
            self._doubts.pop(broker_id, None)
        elif answer is not PeerFailure.TIMED_OUT:
            self._doubt(broker_id, now)
        done, check.waiting, check.later = check.waiting, check.later, []
        check.is_repeated = False
        if check.waiting:
            self._ask(broker_id, check, self._peer(broker_id) or peer, now)
        else:
            del self._checks[broker_id]
        for then in done:
            then(now)

    def _doubt(self, broker_id: int, now: Now) -> None:
        """Once, or who cannot be reached from here alone would never be named again."""
        epoch = self._broker.image.broker_epoch(broker_id)
        known = self._doubts.get(broker_id)
        if known is None or known.broker_epoch != epoch:
            self._doubts[broker_id] = Doubt(epoch, now.monotonic_ms + DOUBT_MS)
