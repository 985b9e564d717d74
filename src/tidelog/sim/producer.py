"""A producer of one partition: keeps several batches in flight, sends again what was not
acknowledged, in order, until it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.errors import RETRIABLE, ErrorCode, PeerFailure
from tidelog.runtime.peers import Peer
from tidelog.sim.client import Ask, Client, Flow, Sleep
from tidelog.sim.history import History, Outcome, Place, Written
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.declare import Message
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

IN_FLIGHT_MAX = 5
"""As many as a broker remembers of each producer."""
BURST_MAX = 3
"""Batches that are sent together."""
RECORDS_MAX = 3
PADDING_MAX = 300
REQUEST_TIMEOUT_MS = 1500
NEVER_WRITTEN = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
RARE = {
    ErrorCode.NOT_ENOUGH_REPLICAS: "acks=all was refused below min.insync.replicas",
    ErrorCode.REQUEST_TIMED_OUT: "acks=all took too long",
}
"""Answers that a long run must have seen."""

Acknowledged = Callable[[Written], None]


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """What kind of producer it is."""

    topic: str
    partition: int
    acks: int
    is_idempotent: bool
    interval_ms: int
    is_durable: bool
    """Whether the topic's min.insync.replicas makes acks=all a promise."""


@dataclass(slots=True, eq=False)
class _Batch:
    written: Written
    records: bytes
    is_sent: bool = False
    may_be_written: bool = False
    """Some request with it had no answer that says that it was not."""


class Producer:
    """One after another it writes values that nobody else writes."""

    def __init__(
        self, client: Client, plan: ProducerPlan, history: History, acknowledged: Acknowledged
    ) -> None:
        self.client = client
        self.plan = plan
        self.is_stopping = False
        """It makes no more batches, and ends once all have an outcome."""
        self.sessions = 0
        self._history = history
        self._tell = acknowledged
        self._queue: list[_Batch] = []
        self._in_flight = 0
        self._is_recovering = True
        self._count = 0
        self._topic_id: Uuid = ZERO_UUID
        self._producer_id, self._producer_epoch, self._sequence = -1, -1, 0

    @property
    def is_done(self) -> bool:
        return self.is_stopping and not self._queue

    def run(self) -> Flow:
        """Some batches each interval, as long as there are not too many without an answer."""
        yield from self._begin_session()
        while not self.is_done:
            if not self._is_recovering:
                for _ in range(self.client.rng.randint(1, BURST_MAX)):
                    if not self.is_stopping and len(self._queue) < self._in_flight_max:
                        self._make()
                self._pump()
            yield Sleep(self.plan.interval_ms)

    @property
    def _in_flight_max(self) -> int:
        return IN_FLIGHT_MAX if self.plan.is_idempotent or self.plan.acks == 0 else 1

    def _begin_session(self) -> Flow:
        """With a producer id of its own, to a topic of that id."""
        self._is_recovering = True
        while True:
            yield from self._find_leader()
            if not self.plan.is_idempotent:
                break
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answer = yield Ask(self.client.some_server(), request)
            if isinstance(answer, InitProducerIdResponse) and answer.error_code == 0:
                self._producer_id = answer.producer_id
                self._producer_epoch = answer.producer_epoch
                self._history.succeeded("InitProducerId")
                break
            yield self.client.pause()
        self.sessions += 1
        self._sequence = 0
        self._is_recovering = False

    def _find_leader(self) -> Flow:
        plan, client = self.plan, self.client
        while True:
            yield from client.refresh([plan.topic])
            if client.leader_of(plan.topic, plan.partition) is not None:
                break
            yield client.pause()
        self._topic_id = client.partitions[plan.topic, plan.partition].topic_id

    def _make(self) -> None:
        rng, plan = self.client.rng, self.plan
        values = []
        builder = BatchBuilder()
        for _ in range(rng.randint(1, RECORDS_MAX)):
            self._count += 1
            text = f"{self.client.name}.{self.sessions}.{self._count}."
            values.append(text.encode() + b"x" * rng.randrange(PADDING_MAX))
            builder.append(b"key", values[-1], timestamp=self.client.now.wall_ms)
        written = Written(
            self.client.name,
            Place(self._topic_id, plan.partition),
            tuple(values),
            plan.acks,
            self.sessions if plan.is_idempotent else None,
            is_durable=plan.is_durable and plan.acks == -1,
        )
        is_idempotent = plan.is_idempotent
        records = builder.build(
            producer_id=self._producer_id if is_idempotent else -1,
            producer_epoch=self._producer_epoch if is_idempotent else -1,
            base_sequence=self._sequence if is_idempotent else -1,
        )
        self._sequence += len(values)
        self._queue.append(_Batch(written, bytes(records)))
        self._history.written.append(written)

    def _pump(self) -> None:
        """Send what was not sent since the last time that something went wrong."""
        for batch in list(self._queue):
            if batch.is_sent:
                continue
            peer = self.client.leader_of(self.plan.topic, self.plan.partition)
            assert peer is not None
            batch.is_sent = True
            self._in_flight += 1
            self.client.spawn(self._send(batch, peer))

    def _send(self, batch: _Batch, peer: Peer) -> Flow:
        data = PartitionProduceData(index=self.plan.partition, records=batch.records)
        topic = TopicProduceData(topic_id=self._topic_id, partition_data=(data,))
        request = ProduceRequest(
            acks=self.plan.acks, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=(topic,)
        )
        if self.plan.acks == 0:
            peer.tell(request)
            self._queue.remove(batch)
            self._in_flight -= 1
            return
        answer = yield Ask(peer, request)
        self._in_flight -= 1
        self._answered(batch, answer)
        if self._in_flight == 0 and self._is_recovering:
            yield from self._recover()

    def _answered(self, batch: _Batch, answer: Message | PeerFailure) -> None:
        if isinstance(answer, PeerFailure):
            batch.may_be_written = True
            self._is_recovering = True
            return
        assert isinstance(answer, ProduceResponse)
        result = answer.responses[0].partition_responses[0]
        match ErrorCode(result.error_code):
            case ErrorCode.NONE | ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._acknowledged(batch, result)
            case error:
                if error in RARE:
                    self._history.counters.reached(RARE[error])
                batch.may_be_written |= error not in NEVER_WRITTEN
                self._is_recovering = True
                if error not in RETRIABLE and batch in self._queue[:1]:
                    self._abandon()

    def _acknowledged(self, batch: _Batch, result: PartitionProduceResponse) -> None:
        if batch not in self._queue:
            return  # of a session that was given up
        self._queue.remove(batch)
        written = batch.written
        written.outcome, written.offset = Outcome.ACKNOWLEDGED, result.base_offset
        self._history.succeeded("Produce")
        self._tell(written)

    def _abandon(self) -> None:
        """The session is of no more use: all that is in it stays without an answer."""
        for left in self._queue:
            if not left.may_be_written and not left.is_sent:
                left.written.outcome = Outcome.REFUSED
        self._queue.clear()

    def _recover(self) -> Flow:
        """Nothing is in flight: find the leader, and send all again in their order."""
        yield self.client.pause()
        topic_id = self._topic_id
        yield from self._find_leader()
        if self._topic_id != topic_id:
            self._abandon()
        if not self._queue:
            yield from self._begin_session()
        for batch in self._queue:
            batch.is_sent = False
        self._is_recovering = False
        self._pump()
