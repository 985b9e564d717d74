"""Ids for idempotent producers: blocks of them come from the controller, each id is given once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tidelog.broker.handlers.producer_ids import DelayedProducerId
from tidelog.env import Now
from tidelog.errors import PeerFailure
from tidelog.wire.declare import Message
from tidelog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


class ProducerIds:
    """The block at hand, and who waits for the next one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = self._end = 0
        self._waiting: deque[DelayedProducerId] = deque()

    def take(self, delayed: DelayedProducerId, now: Now) -> bool:
        """Whether there is an id; if not, delayed is answered with one when there is."""
        if self._next < self._end:
            return True
        self._waiting.append(delayed)
        if len(self._waiting) == 1:
            self._ask(now)
        return False

    def next_id(self) -> int:
        assert self._next < self._end
        self._next += 1
        return self._next - 1

    def _ask(self, now: Now) -> None:
        broker = self._broker
        request = AllocateProducerIdsRequest(
            broker_id=broker.node_id, broker_epoch=broker.broker_epoch
        )
        broker.controller.ask(request, self._answered, now)

    def _answered(self, answer: Message | PeerFailure, now: Now) -> None:
        purgatory = self._broker.purgatory
        if not isinstance(answer, AllocateProducerIdsResponse) or answer.error_code:
            # No room on its disk, no ids left, nobody there: those who wait ask again.
            while self._waiting:
                delayed = self._waiting.popleft()
                purgatory.complete(delayed, delayed.expire(now))
            return
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len
        while self._waiting and self._next < self._end:
            delayed = self._waiting.popleft()
            if not delayed.is_done:
                purgatory.complete(delayed, delayed.response(self.next_id()))
        if self._waiting:
            self._ask(now)
