"""A DeleteRecords that waits for the live replicas: what one of them still has may come back
with its leadership."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.replica.awaited import Place as AwaitedPlace
from tidelog.replica.partition import Partition
from tidelog.runtime.purgatory import Delayed
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.delete_records import DeleteRecordsResponse

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

Place = tuple[int, int]
"""Of a partition in the response: which topic, which partition of it."""


class Deleted(NamedTuple):
    """What the leader has done and others have to."""

    place: Place
    partition: Partition
    offset: Offset
    """Where the low watermark must be."""


class DelayedDeleteRecords(Delayed):
    """Answered when no replica that lives has what was deleted."""

    def __init__(self, broker: Broker, response: DeleteRecordsResponse, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.response = response
        self._broker = broker
        self._pending: dict[Place, tuple[Partition, AwaitedPlace]] = {}

    @property
    def is_pending(self) -> bool:
        return bool(self._pending)

    def wait_for(self, deleted: Deleted) -> None:
        """Until the low watermark is there, or never will be: also when that is so already."""
        partition = deleted.partition
        low_watermark = partition.low_watermark
        is_here = self._broker.hosting.by_id.get((partition.topic_id, partition.index))
        if is_here is not partition or not partition.is_leader:
            self._tell(deleted.place, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        elif low_watermark >= deleted.offset:
            self._tell(deleted.place, ErrorCode.NONE, low_watermark)
        else:
            again = partial(self._look_again, deleted)
            place = partition.low_watermark_awaited.add(deleted.offset, again)
            self._pending[deleted.place] = partition, place

    def _look_again(self, deleted: Deleted) -> None:
        del self._pending[deleted.place]
        self.wait_for(deleted)
        if not self._pending:
            self._broker.purgatory.complete(self, self.response)

    def expire(self, now: Now) -> Message:
        """The leader has deleted; the others will."""
        for place, (partition, _) in self._pending.items():
            self._tell(place, ErrorCode.REQUEST_TIMED_OUT, partition.low_watermark)
        return self.response

    def forget(self) -> None:
        for partition, place in self._pending.values():
            partition.low_watermark_awaited.remove(place)
        self._pending.clear()

    def _tell(self, place: Place, error: ErrorCode, low_watermark: Offset) -> None:
        topic, index = place
        topics = list(self.response.topics)
        partitions = list(topics[topic].partitions)
        partitions[index] = partitions[index].replace(error_code=error, low_watermark=low_watermark)
        topics[topic] = topics[topic].replace(partitions=tuple(partitions))
        self.response = self.response.replace(topics=tuple(topics))


def wait_for_low_watermarks(
    broker: Broker,
    response: DeleteRecordsResponse,
    deleted: list[Deleted],
    timeout_ms: int,
    now: Now,
) -> DeleteRecordsResponse | DelayedDeleteRecords:
    """The answer itself, if nobody has to be waited for."""
    delayed = DelayedDeleteRecords(broker, response, now.monotonic_ms + max(timeout_ms, 1))
    for one in deleted:
        delayed.wait_for(one)
    return delayed if delayed.is_pending else delayed.response
