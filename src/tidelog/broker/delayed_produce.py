"""A Produce whose records are appended, but whose answer must wait: here for the disk, where
flush.messages says that so many records may not be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.replica.partition import Partition
from tidelog.runtime.purgatory import Delayed
from tidelog.wire.declare import Message
from tidelog.wire.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

Place = tuple[int, int]
"""Of a partition in the response: which topic, which partition of it."""


class DelayedProduce(Delayed):
    """Answered when none of its partitions has to wait any more."""

    waits_for_disk = True

    def __init__(self, broker: Broker, response: ProduceResponse, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self._broker = broker
        self._response = response
        self._pending: set[Place] = set()

    def wait_for(self, place: Place, partition: Partition, now: Now) -> None:
        self._pending.add(place)

        def flushed(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._response = self._refused({place}, error)
            self._pending.discard(place)
            if not self._pending:
                self._broker.purgatory.complete(self, self._response)

        self._broker.when_flushed(partition, partition.log.log_end_offset, flushed, now)

    def expire(self, now: Now) -> Message:
        """The records stay in the log: only an idempotent producer may send them again."""
        return self._refused(self._pending, ErrorCode.REQUEST_TIMED_OUT)

    def _refused(self, places: set[Place], error: ErrorCode) -> ProduceResponse:
        topics = list(self._response.responses)
        for topic, index in places:
            answers = list(topics[topic].partition_responses)
            answers[index] = answers[index].replace(error_code=error, base_offset=-1)
            topics[topic] = topics[topic].replace(partition_responses=tuple(answers))
        return self._response.replace(responses=tuple(topics))


def wait_for_flushes(
    broker: Broker, response: ProduceResponse, timeout_ms: int, now: Now
) -> ProduceResponse | DelayedProduce:
    """The answer itself, if flush.messages asks nothing of the partitions that it names."""
    delayed: DelayedProduce | None = None
    for topic_place, topic in enumerate(response.responses):
        for place, answer in enumerate(topic.partition_responses):
            partition = broker.hosted(topic.name, topic.topic_id, answer.index, now)
            if answer.error_code or not isinstance(partition, Partition):
                continue
            if not partition.must_flush_records:
                continue
            if delayed is None:
                deadline_ms = now.monotonic_ms + max(timeout_ms, 1)
                delayed = DelayedProduce(broker, response, deadline_ms)
            delayed.wait_for((topic_place, place), partition, now)
    return response if delayed is None else delayed
