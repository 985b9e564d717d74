"""A producer: batches in the order they came, several on their way, idempotent if wished.

    producer = Producer()
    client.run(producer.send, partition, batch)      # returns while the broker still works
    client.run(producer.flush)                       # returns when all are acknowledged

A partition's batches keep their order: when one has to be sent again, those behind it wait for
it and follow. With idempotence the broker drops what it already has, so that each lands once;
where it has forgotten that it has it, as a restarted broker of Apache Kafka's has of all but a
producer's last batch, it is asked.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from tidelog.client.cluster import Cluster, TopicPartition
from tidelog.client.errors import (
    Address,
    BrokerError,
    ClientError,
    TimedOut,
    UnsupportedByBroker,
)
from tidelog.client.lane import SEQUENCE_END, Lane, Unacknowledged
from tidelog.client.produce import (
    ACKS_ALL,
    ACKS_NONE,
    Batch,
    Produced,
    ProducerIdentity,
    init_producer_id,
    last_sequences,
    produce_request,
    produce_results,
    stamp,
)
from tidelog.client.routing import Attempts, find_leaders, version_limit
from tidelog.client.steps import Abandon, Ask, Reply, Steps, finish, start
from tidelog.errors import ErrorCode
from tidelog.wire.batch import RecordBatch, read_batch
from tidelog.wire.batch_reader import split_batch

IN_FLIGHT_MAX = 5
"""Kafka's max.in.flight.requests.per.connection. With idempotence it must not be more: a broker
remembers the last 5 batches of a producer."""
UNACKNOWLEDGED_BYTES_MAX = 32 << 20
"""Kafka's buffer.memory: beyond it `send` waits for answers."""
RETRIES_MAX = (1 << 31) - 1
"""Kafka's retries: of one batch, within its delivery timeout."""
REQUEST_BYTES_MAX = 1 << 20
"""Kafka's max.request.size; one larger batch goes alone."""


class _Sent(NamedTuple):
    """A request on its way."""

    address: Address
    ticket: int
    entries: dict[TopicPartition, Unacknowledged]


Acknowledged = Callable[[TopicPartition, int, Produced], None]
"""Told of each batch: its partition, its record count, where it lies."""


class Producer:
    """Sends batches. `delivery_timeout_ms` bounds how long one may stay without an answer."""

    def __init__(
        self,
        *,
        acks: int = ACKS_ALL,
        idempotent: bool = True,
        delivery_timeout_ms: int = 120_000,
        retries: int = RETRIES_MAX,
        in_flight_max: int = IN_FLIGHT_MAX,
        unacknowledged_bytes_max: int = UNACKNOWLEDGED_BYTES_MAX,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        on_acknowledged: Acknowledged | None = None,
        allow_auto_topic_creation: bool = False,
    ) -> None:
        if idempotent and acks != ACKS_ALL:
            raise ValueError("an idempotent producer needs acks=all")
        if idempotent and in_flight_max > IN_FLIGHT_MAX:
            raise ValueError(f"an idempotent producer has {IN_FLIGHT_MAX} requests in flight")
        self.acks = acks
        self.idempotent = idempotent
        self.delivery_timeout_ms = delivery_timeout_ms
        self.identity: ProducerIdentity | None = None
        self.retries = retries
        self.in_flight_max = in_flight_max
        self.unacknowledged_bytes_max = unacknowledged_bytes_max
        self.request_bytes_max = request_bytes_max
        self.unacknowledged_bytes = 0
        self.records_bytes_max: dict[str, int] = {}
        """Of topics that refused larger batches, what to make of records before compression."""
        self._in_flight_bytes = 0
        self._on_acknowledged = on_acknowledged
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._lanes: dict[TopicPartition, Lane] = {}
        self._unsent: dict[TopicPartition, None] = {}
        """The partitions that have a batch which is not in flight, in turn."""
        self._doubts: dict[TopicPartition, BrokerError] = {}
        """Where a batch that was sent before is now out of order: written already, or lost? Nothing
        is sent there until the leader has told what it has."""
        self._requests: deque[_Sent] = deque()
        self._attempts: Attempts | None = None
        """Since the last success: backoffs grow while nothing goes through."""

    def send(self, cluster: Cluster, partition: TopicPartition, batch: Batch) -> Steps[None]:
        """Hand over a batch, which is the producer's from now on. Raises what is wrong with
        this or an earlier batch; then the producer is of no more use but to be closed."""
        header = read_batch(memoryview(batch), 0, len(batch))
        assert isinstance(header, RecordBatch), header
        if self.idempotent and self.identity is None:
            self.identity = yield from init_producer_id(
                cluster, timeout_ms=self.delivery_timeout_ms
            )
        lane = self._lanes.setdefault(partition, Lane())
        if self.identity is not None:
            stamp(batch, self.identity, lane.next_sequence)
        count = header.record_count
        last_sequence = (lane.next_sequence + count - 1) % SEQUENCE_END
        lane.next_sequence = (last_sequence + 1) % SEQUENCE_END
        lane.batches.append(Unacknowledged(batch, count, last_sequence, cluster.now_ms()))
        self._unsent.setdefault(partition)
        self.unacknowledged_bytes += len(batch)
        yield from self._start_requests(cluster)
        while self._requests and self._is_full():
            yield from self._finish_oldest(cluster)
            yield from self._start_requests(cluster)

    def flush(self, cluster: Cluster) -> Steps[None]:
        """Wait until every batch is acknowledged."""
        while self.unacknowledged_bytes:
            yield from self._start_requests(cluster)
            yield from self._finish_oldest(cluster)

    def close(self, cluster: Cluster) -> Steps[None]:
        """Forget what is not acknowledged, of which some may still be written."""
        while self._requests:
            yield Abandon(self._requests.popleft().ticket)
        self._lanes.clear()
        self._unsent.clear()
        self._doubts.clear()
        self.unacknowledged_bytes = self._in_flight_bytes = 0

    def _is_full(self) -> bool:
        """What cannot be sent yet gathers, so that one request takes many partitions' batches."""
        return (
            self.unacknowledged_bytes > self.unacknowledged_bytes_max
            or self.unacknowledged_bytes - self._in_flight_bytes > self.request_bytes_max
        )

    def _start_requests(self, cluster: Cluster) -> Steps[None]:
        if self._doubts:
            yield from self._end_doubts(cluster)
        if len(self._requests) >= self.in_flight_max * max(1, len(cluster.brokers)):
            return
        waiting = [p for p in self._unsent if self._next_unsent(p) is not None]
        if not waiting:
            return
        attempts = self._attempts or Attempts(cluster, self.delivery_timeout_ms)
        yield from find_leaders(cluster, waiting, attempts, self._allow_auto_topic_creation)
        busy = Counter(sent.address for sent in self._requests)
        while requests := self._gather(cluster, busy):
            for address, part in requests.items():
                busy[address] += 1
                yield from self._start(cluster, address, part)

    def _end_doubts(self, cluster: Cluster) -> Steps[None]:
        """Strike out what the leaders have. A broker takes batches in order only: so it has all
        up to its last sequence, and what is missing before that is lost for ever."""
        assert self.identity is not None
        doubtful = [p for p in self._doubts if not self._lanes[p].in_flight]
        if not doubtful:
            return
        try:
            found = yield from last_sequences(
                cluster, self.identity, doubtful, timeout_ms=self.delivery_timeout_ms
            )
        except (BrokerError, UnsupportedByBroker) as error:
            raise self._doubts[doubtful[0]] from error
        for partition in doubtful:
            doubt = self._doubts.pop(partition)
            written = self._lanes[partition].up_to(found[partition])
            if not written:
                raise doubt
            for entry in written:
                self._acknowledge(partition, entry, Produced(-1, -1, -1))

    def _next_unsent(self, partition: TopicPartition) -> Unacknowledged | None:
        lane = self._lanes[partition]
        if lane.is_retrying:
            if lane.in_flight:
                return None
            lane.is_retrying = False
        if self.idempotent and not lane.is_acquainted and lane.in_flight:
            return None
        return next((entry for entry in lane.batches if not entry.is_in_flight), None)

    def _gather(
        self, cluster: Cluster, busy: Counter[Address]
    ) -> dict[Address, dict[TopicPartition, Unacknowledged]]:
        """The next request for each broker that may have one more: a batch of each partition."""
        requests: dict[Address, dict[TopicPartition, Unacknowledged]] = {}
        sizes: Counter[Address] = Counter()
        for partition in list(self._unsent):
            entry = self._next_unsent(partition)
            leader = cluster.leader_of(partition)
            if entry is None or leader is None:
                continue
            address = cluster.brokers[leader.node_id]
            size = len(entry.batch)
            fits = not sizes[address] or sizes[address] + size <= self.request_bytes_max
            if busy[address] < self.in_flight_max and fits:
                requests.setdefault(address, {})[partition] = entry
                sizes[address] += size
                self._mark(entry, is_in_flight=True)
                # Who has more goes to the end, so that each has its turn.
                del self._unsent[partition]
                if not self._lanes[partition].batches[-1].is_in_flight:
                    self._unsent[partition] = None
        return requests

    def _start(
        self, cluster: Cluster, address: Address, part: dict[TopicPartition, Unacknowledged]
    ) -> Steps[None]:
        timeout_ms = cluster.settings.request_timeout_ms
        batches = {partition: entry.batch for partition, entry in part.items()}
        request = produce_request(cluster, batches, self.acks, timeout_ms)
        limit = version_limit(cluster, part)
        ask = Ask(address, request, timeout_ms, limit, self.acks != ACKS_NONE)
        ticket = yield from start(ask)
        self._requests.append(_Sent(address, ticket, part))

    def _finish_oldest(self, cluster: Cluster) -> Steps[None]:
        if not self._requests:
            return
        sent = self._requests.popleft()
        reply = yield from finish(sent.ticket)
        failure = self._settle(cluster, sent, reply)
        if failure is None:
            if any(entry.is_acknowledged for entry in sent.entries.values()):
                self._attempts = None  # what only came behind a refused one is no success
            return
        failed = [entry for entry in sent.entries.values() if not entry.is_acknowledged]
        self._count_failure(cluster, failed, failure)
        cluster.forget({partition.topic for partition in sent.entries})
        self._attempts = self._attempts or Attempts(cluster, self.delivery_timeout_ms)
        yield from self._attempts.again(failure)

    def _count_failure(
        self, cluster: Cluster, failed: list[Unacknowledged], failure: ClientError
    ) -> None:
        """Raise the failure if it is final for one of the batches."""
        if not failure.is_retriable:
            raise failure
        now_ms = cluster.now_ms()
        for entry in failed:
            if not entry.failures:
                # While nobody calls the producer nothing is sent: such time does not count.
                sent_ms = now_ms - cluster.settings.request_timeout_ms
                entry.sent_ms = max(entry.sent_ms, sent_ms)
            entry.failures += 1
            if entry.failures > self.retries:
                raise failure
            if now_ms - entry.sent_ms >= self.delivery_timeout_ms:
                raise TimedOut(f"not delivered within {self.delivery_timeout_ms} ms: {failure}")

    def _settle(self, cluster: Cluster, sent: _Sent, reply: Reply) -> ClientError | None:
        """Strike out what was acknowledged; of the rest, why not."""
        failure: ClientError | None = None
        if isinstance(reply, ClientError):
            cluster.failed(sent.address)
            failure = reply
        elif reply is None:
            for partition in sent.entries:
                self._acknowledge(partition, sent.entries[partition], Produced(-1, -1, -1))
        else:
            for result in produce_results(cluster, reply):
                entry = sent.entries[result.partition]
                code = result.error_code
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._acknowledge(result.partition, entry, result.value)
                elif code == ErrorCode.MESSAGE_TOO_LARGE and entry.record_count > 1:
                    self._split(result.partition, entry)
                elif not self._follows_a_failure(result.partition, code):
                    about = f"partition {result.partition}"
                    error = BrokerError(code, result.message, about=about)
                    if self._may_be_written(entry, code):
                        self._doubts[result.partition] = error
                    else:
                        failure = error
        for partition, entry in sent.entries.items():
            if entry.is_in_flight:
                self._mark(entry, is_in_flight=False)
                self._lanes[partition].is_retrying = True
                self._unsent.setdefault(partition)
        return failure

    def _split(self, partition: TopicPartition, entry: Unacknowledged) -> None:
        """Put smaller batches in the place of one that the topic refused, as Kafka's producer
        does: they take its sequences, so those behind it remain as they are."""
        whole = read_batch(memoryview(entry.batch), 0, len(entry.batch))
        assert isinstance(whole, RecordBatch), whole
        self._mark(entry, is_in_flight=False)
        self.unacknowledged_bytes -= len(entry.batch)
        records_bytes_max = len(whole.decompressed()) // 2
        known = self.records_bytes_max.get(partition.topic, records_bytes_max)
        self.records_bytes_max[partition.topic] = min(known, records_bytes_max)
        parts = []
        sequence = whole.base_sequence
        for batch in split_batch(whole, records_bytes_max):
            part = read_batch(memoryview(batch), 0, len(batch))
            assert isinstance(part, RecordBatch), part
            if self.identity is not None:
                stamp(batch, self.identity, sequence)
            last_sequence = (sequence + part.record_count - 1) % SEQUENCE_END
            sequence = (last_sequence + 1) % SEQUENCE_END
            parts.append(Unacknowledged(batch, part.record_count, last_sequence, entry.sent_ms))
            self.unacknowledged_bytes += len(batch)
        lane = self._lanes[partition]
        index = lane.batches.index(entry)
        lane.batches.remove(entry)
        for place, part_entry in enumerate(parts, index):
            lane.batches.insert(place, part_entry)
        lane.is_retrying = True
        self._unsent.setdefault(partition)

    def _follows_a_failure(self, partition: TopicPartition, code: int) -> bool:
        """A batch behind one that has to be sent again arrives out of order, and is no error."""
        behind = self._lanes[partition].is_retrying
        return behind and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _may_be_written(self, entry: Unacknowledged, code: int) -> bool:
        """Out of order, but sent before: the broker may have it and not remember that."""
        is_out_of_order = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return is_out_of_order and entry.failures > 0 and self.identity is not None

    def _acknowledge(
        self, partition: TopicPartition, entry: Unacknowledged, produced: Produced
    ) -> None:
        self._mark(entry, is_in_flight=False)
        entry.is_acknowledged = True
        lane = self._lanes[partition]
        lane.is_acquainted = True
        lane.batches.remove(entry)
        self.unacknowledged_bytes -= len(entry.batch)
        if self._on_acknowledged is not None:
            self._on_acknowledged(partition, entry.record_count, produced)

    def _mark(self, entry: Unacknowledged, *, is_in_flight: bool) -> None:
        entry.is_in_flight = is_in_flight
        self._in_flight_bytes += len(entry.batch) if is_in_flight else -len(entry.batch)
