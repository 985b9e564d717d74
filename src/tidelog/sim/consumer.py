"""A consumer that reads a partition from its first offset on, from the leader or a follower."""

from __future__ import annotations

from typing import Protocol

from tidelog.errors import ErrorCode
from tidelog.sim.client import Ask, Client, Flow
from tidelog.sim.history import History, Place, Seen
from tidelog.sim.violation import require
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk, RecordBatch
from tidelog.wire.batch_reader import read_records
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.fetch import PartitionData as Fetched
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

MAX_WAIT_MS = 500
PARTITION_MAX_BYTES = 16 << 10
EARLIEST, LATEST = -2, -1
NOBODY = -1
FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)


class Witness(Protocol):
    """Who compares what is read with what was committed."""

    def read(
        self, consumer: str, place: Place, batch: RecordBatch, high_watermark: Offset, /
    ) -> None:
        """Which replica's high watermark it came with."""

    def reset(self, consumer: str, place: Place, position: Offset, start: Offset, /) -> None:
        """The position was outside of the log, which begins at start now."""


class Consumer:
    """Follows one partition."""

    def __init__(
        self, client: Client, topic: str, partition: int, history: History, witness: Witness
    ) -> None:
        self.client = client
        self.topic, self.partition = topic, partition
        self.rack = ""
        self.position: Offset = 0
        self.is_stopping = False
        self._epoch = -1
        """Of the record before the position."""
        self.place: Place | None = None
        self._replica = NOBODY
        """The follower that the leader told us to read from."""
        self._history = history
        self._witness = witness

    @property
    def _purpose(self) -> str:
        return f"/{self.topic}-{self.partition}"

    def run(self) -> Flow:
        while not self.is_stopping:
            is_known = yield from self._find()
            if not is_known:
                yield self.client.pause()
                continue
            error = yield from self._fetch()
            if error is not ErrorCode.NONE:
                self._replica = NOBODY
                self.client.partitions.pop((self.topic, self.partition), None)
                yield self.client.pause()

    def _find(self) -> Flow:
        """Know who leads; begin anew with a topic that was made anew."""
        key = self.topic, self.partition
        if key not in self.client.partitions:
            yield from self.client.refresh([self.topic])
        led = self.client.partitions.get(key)
        if led is None or self.client.leader_of(*key) is None:
            self.client.partitions.pop(key, None)
            return False
        place = Place(led.topic_id, self.partition)
        if place != self.place:
            self.place, self.position, self._epoch, self._replica = place, 0, -1, NOBODY
        return True

    def _fetch(self) -> Flow:
        client = self.client
        led = client.partitions[self.topic, self.partition]
        node = led.leader if self._replica == NOBODY else self._replica
        address = client.brokers.get(node)
        if address is None:
            return ErrorCode.BROKER_NOT_AVAILABLE
        asked = FetchPartition(
            partition=self.partition,
            current_leader_epoch=led.leader_epoch,
            fetch_offset=self.position,
            last_fetched_epoch=self._epoch,
            partition_max_bytes=PARTITION_MAX_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            topics=(FetchTopic(topic_id=led.topic_id, partitions=(asked,)),),
            rack_id=self.rack,
        )
        answer = yield Ask(client.peer(*address, self._purpose), request)
        if not isinstance(answer, FetchResponse):
            return ErrorCode.NETWORK_EXCEPTION
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return (yield from self._fetched(answer.responses[0].partitions[0]))

    def _fetched(self, answer: Fetched) -> Flow:
        assert self.place is not None
        error = ErrorCode(answer.error_code)
        reached = self._history.counters.reached
        if error in FENCED:
            reached("a consumer was fenced by its epoch")
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and self._replica != NOBODY:
            reached("a follower was behind its consumer")
            return error  # the leader knows better
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            yield from self._reset()
            return ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        if answer.diverging_epoch.end_offset >= 0 and self._replica != NOBODY:
            # Of a follower that lost records and has not caught up: a client of Kafka asks the
            # leader alone where its history ends.
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if answer.diverging_epoch.end_offset >= 0:
            end_offset = answer.diverging_epoch.end_offset
            self._witness.reset(self.client.name, self.place, self.position, end_offset)
            self.position, self._epoch = min(end_offset, self.position), -1
            return error
        if answer.preferred_read_replica != NOBODY:
            reached("a consumer was sent to a follower")
            self._replica = answer.preferred_read_replica
            return error
        self._take(answer)
        return error

    def _take(self, answer: Fetched) -> None:
        assert self.place is not None
        self._history.succeeded("Fetch")
        walk = BatchWalk(memoryview(answer.records or b""))
        for batch in walk:
            require(
                batch.base_offset <= self.position,
                "a consumer skips nothing",
                lambda: f"{self.client.name} asked for {self.position} and got {answer}",
            )
            self._witness.read(self.client.name, self.place, batch, answer.high_watermark)
            if not batch.is_control:
                for record in read_records(batch):
                    if record.offset >= self.position:
                        seen = Seen(
                            self.client.name, self.place, record.offset, record.value or b""
                        )
                        self._history.seen.append(seen)
            if batch.next_offset > self.position:
                self.position = batch.next_offset
                self._epoch = batch.partition_leader_epoch

    def _reset(self) -> Flow:
        """Where the log begins now."""
        assert self.place is not None
        peer = self.client.leader_of(self.topic, self.partition)
        if peer is None:
            return
        offsets = yield from list_offsets(self.client, self.topic, self.partition, EARLIEST)
        if offsets is not None:
            self._witness.reset(self.client.name, self.place, self.position, offsets)
            self.position, self._epoch = offsets, -1


def list_offsets(client: Client, topic: str, partition: int, timestamp: int) -> Flow:
    """An offset of the leader's; None if it does not tell."""
    peer = client.leader_of(topic, partition)
    led = client.partitions.get((topic, partition))
    if peer is None or led is None:
        return None
    asked = ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=led.leader_epoch, timestamp=timestamp
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),)
    )
    answer = yield Ask(peer, request)
    if not isinstance(answer, ListOffsetsResponse):
        return None
    result = answer.topics[0].partitions[0]
    return result.offset if result.error_code == ErrorCode.NONE else None
