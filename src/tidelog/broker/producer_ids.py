"""Ids for idempotent producers: blocks of them come from the controller, each id is given once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tidelog.broker.handlers.producer_ids import DelayedProducerId
from tidelog.controller.producer_ids import allocate_producer_ids
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.slices import Slices
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

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
            self._start_to_ask(now)
        return False

    def _start_to_ask(self, now: Now) -> None:
        self._broker.jobs.start(self._broker.in_turn(lambda: self._ask(now)), now)

    def next_id(self) -> int:
        assert self._next < self._end
        self._next += 1
        return self._next - 1

    def _ask(self, now: Now) -> Slices[None]:
        broker = self._broker
        latest = broker.metadata.latest
        decision = allocate_producer_ids(
            latest,
            AllocateProducerIdsRequest(
                broker_id=broker.node_id, broker_epoch=latest.broker_epoch(broker.node_id)
            ),
        )
        block = decision.response

        def committed(now: Now) -> None:
            self._next = block.producer_id_start
            self._end = block.producer_id_start + block.producer_id_len
            while self._waiting and self._next < self._end:
                delayed = self._waiting.popleft()
                if not delayed.is_done:
                    broker.purgatory.complete(delayed, delayed.response(self.next_id()))
            if self._waiting:
                self._start_to_ask(now)

        error = ErrorCode(block.error_code)
        if error is ErrorCode.NONE:
            error = yield from broker.metadata.append_in_slices(decision.records, now, committed)
        if error is ErrorCode.NONE:
            broker.flush_metadata(now)
        else:
            # No room on the disk, or no ids left: those who wait ask again.
            while self._waiting:
                delayed = self._waiting.popleft()
                broker.purgatory.complete(delayed, delayed.expire(now))
