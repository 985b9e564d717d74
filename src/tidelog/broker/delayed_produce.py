"""A Produce whose records are appended, but whose answer must wait: with acks=all for the
replicas, and where flush.messages says that so many records may not be lost, for the disk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.replica.awaited import Place as AwaitedPlace
from tidelog.replica.partition import Partition
from tidelog.runtime.purgatory import Delayed
from tidelog.runtime.rows import NO_MESSAGE
from tidelog.types import Offset
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records_types import SingleProduce
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

_new = tuple.__new__
PRODUCE = int(ApiKey.PRODUCE)
Place = tuple[int, int]
"""Of a partition in the response: which topic, which partition of it."""


class Wait(NamedTuple):
    """What an answer is to wait for."""

    place: Place
    partition: Partition
    required_offset: Offset
    """Where the high watermark must be: behind the last record."""


class DelayedProduce(Delayed):
    """Answered when none of its partitions has to wait any more."""

    def __init__(self, broker: Broker, response: ProduceResponse, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.response = response
        self._broker = broker
        self._replicating: dict[Place, tuple[Partition, AwaitedPlace]] = {}
        self._flushing: dict[Place, None] = {}

    @property
    def is_pending(self) -> bool:
        return bool(self._replicating or self._flushing)

    def wait_for_replicas(self, wait: Wait) -> None:
        """Until the high watermark is there, or never will be: also when that is so already."""
        error = _replicated(wait.partition, wait.required_offset, self._broker)
        if error is None:
            again = partial(self._look_again, wait)
            place = wait.partition.high_watermark_awaited.add(wait.required_offset, again)
            self._replicating[wait.place] = wait.partition, place
        elif error is not ErrorCode.NONE:
            self._refuse([wait.place], error)

    def _look_again(self, wait: Wait) -> None:
        del self._replicating[wait.place]
        self.wait_for_replicas(wait)
        self._maybe_complete()

    def wait_for_flush(self, place: Place, partition: Partition, now: Now) -> None:
        self.waits_for_disk = True
        self._flushing[place] = None

        def flushed(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._refuse([place], error)
            self._flushing.pop(place, None)
            self._maybe_complete()

        self._broker.when_flushed(partition, partition.log.log_end_offset, flushed, now)

    def _maybe_complete(self) -> None:
        if not self.is_pending:
            self._broker.purgatory.complete(self, self.response)

    def expire(self, now: Now) -> Message:
        """The records stay in the log: only an idempotent producer may send them again."""
        self._refuse([*self._replicating, *self._flushing], ErrorCode.REQUEST_TIMED_OUT)
        return self.response

    def forget(self) -> None:
        for partition, place in self._replicating.values():
            partition.high_watermark_awaited.remove(place)
        self._replicating.clear()

    def _refuse(self, places: list[Place], error: ErrorCode) -> None:
        topics = list(self.response.responses)
        for topic, index in places:
            answers = list(topics[topic].partition_responses)
            if not answers[index].error_code:
                answers[index] = answers[index].replace(error_code=error, base_offset=-1)
            topics[topic] = topics[topic].replace(partition_responses=tuple(answers))
        self.response = self.response.replace(responses=tuple(topics))


class DelayedSingle(Delayed):
    """The same for a request of one batch: the answer is there, and only waits to be true."""

    def __init__(
        self,
        broker: Broker,
        one: SingleProduce,
        partition: Partition,
        required_offset: Offset,
        frame: bytes,
        deadline_ms: int,
    ) -> None:
        super().__init__(deadline_ms)
        # Without the named tuple's own constructor: once a request.
        self.request = _new(Request, (PRODUCE, one.version, one.correlation_id, None, NO_MESSAGE))
        self._broker = broker
        self._topic, self._topic_id = one.topic, one.topic_id
        self._partition = partition
        self._required_offset = required_offset
        self._frame = frame
        self._place: AwaitedPlace | None = partition.high_watermark_awaited.add(
            required_offset, self._look_again
        )

    def _look_again(self) -> None:
        self._place = None
        error = _replicated(self._partition, self._required_offset, self._broker)
        if error is None:
            awaited = self._partition.high_watermark_awaited
            self._place = awaited.add(self._required_offset, self._look_again)
        elif error is ErrorCode.NONE:
            self._broker.purgatory.complete_encoded(self, [self._frame])
        else:
            self._broker.purgatory.complete(self, self._refused(error))

    def expire(self, now: Now) -> Message:
        return self._refused(ErrorCode.REQUEST_TIMED_OUT)

    def forget(self) -> None:
        if self._place is not None:
            self._partition.high_watermark_awaited.remove(self._place)
            self._place = None

    def _refused(self, error: ErrorCode) -> ProduceResponse:
        answer = PartitionProduceResponse(
            index=self._partition.index, error_code=error, base_offset=-1
        )
        topic = TopicProduceResponse(
            name=self._topic, topic_id=self._topic_id, partition_responses=(answer,)
        )
        return ProduceResponse(responses=(topic,))


def wait_for_single(
    broker: Broker,
    one: SingleProduce,
    partition: Partition,
    required_offset: Offset,
    frame: bytes,
    now: Now,
) -> bytes | DelayedSingle:
    """The answer itself, if enough replicas have it: nobody else counts, or it is a retry."""
    if _replicated(partition, required_offset, broker) is ErrorCode.NONE:
        return frame
    deadline_ms = now.monotonic_ms + max(one.timeout_ms, 1)
    return DelayedSingle(broker, one, partition, required_offset, frame, deadline_ms)


def _replicated(partition: Partition, required_offset: Offset, broker: Broker) -> ErrorCode | None:
    """Whether enough replicas have it; None if that may still come."""
    if broker.hosting.by_id.get((partition.topic_id, partition.index)) is not partition:
        return _why_gone(partition, broker)
    if partition.leader_id != partition.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.high_watermark < required_offset:
        return None
    if len(partition.maximal_isr) < partition.min_isr:
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE


def _why_gone(partition: Partition, broker: Broker) -> ErrorCode:
    state = broker.image.partition_by_id(partition.topic_id, partition.index)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.node_id in state.replicas:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def wait_for_all(
    broker: Broker, response: ProduceResponse, waits: list[Wait], timeout_ms: int, now: Now
) -> ProduceResponse | DelayedProduce:
    """The answer itself, if nothing has to be waited for."""
    if not waits and not broker.hosting.flushing:
        return response
    delayed = DelayedProduce(broker, response, now.monotonic_ms + max(timeout_ms, 1))
    for wait in waits:
        delayed.wait_for_replicas(wait)
    if broker.hosting.flushing:
        _wait_for_flushes(broker, delayed, now)
    return delayed if delayed.is_pending else delayed.response


def _wait_for_flushes(broker: Broker, delayed: DelayedProduce, now: Now) -> None:
    for topic_place, topic in enumerate(delayed.response.responses):
        for place, answer in enumerate(topic.partition_responses):
            partition = broker.hosted(topic.name, topic.topic_id, answer.index, now)
            if answer.error_code or not isinstance(partition, Partition):
                continue
            if partition.must_flush_records:
                delayed.wait_for_flush((topic_place, place), partition, now)
