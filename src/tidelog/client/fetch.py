"""Reads record batches as they lie in the log: bytes, no record objects.

`fetch` asks once, for many partitions. `PartitionReader` reads one partition on and on and has
the next answer on its way while the caller works on the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidelog.client.cluster import Cluster, TopicPartition
from tidelog.client.errors import BrokerError, ClientError, CorruptBatch
from tidelog.client.offsets import IsolationLevel
from tidelog.client.routing import (
    Attempts,
    PartitionCall,
    PartitionResult,
    ask_leaders,
    find_leaders,
    group_by_topic,
    version_limit,
)
from tidelog.client.steps import Abandon, Ask, Steps, finish, start
from tidelog.errors import ErrorCode
from tidelog.types import Offset
from tidelog.wire import records
from tidelog.wire.batch import BatchWalk, FlawKind, RecordBatch
from tidelog.wire.declare import Message
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

MAX_BYTES = 50 << 20
PARTITION_MAX_BYTES = 1 << 20
MAX_WAIT_MS = 500
OFFSET_END_MAX: Offset = (1 << 63) - 1
OFFSET_BYTES = 1024
"""What a record takes, as long as a reader has seen none."""
LAST_FETCH_BYTES_MIN = 64 << 10


class FetchLimits(NamedTuple):
    """When a broker answers, and with how much. It sends a first batch whole, however large."""

    max_wait_ms: int = MAX_WAIT_MS
    min_bytes: int = 1
    max_bytes: int = MAX_BYTES
    partition_max_bytes: int = PARTITION_MAX_BYTES


class Fetched(NamedTuple):
    """What one answer holds of one partition; the bytes are the caller's."""

    partition: TopicPartition
    fetch_offset: Offset
    records: memoryview
    """Batches. The first may begin before fetch_offset, the last may be cut off."""
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted_transactions: tuple[AbortedTransaction, ...]

    def batches(self, *, check_crc: bool = True) -> Iterator[RecordBatch]:
        """The whole batches that hold fetch_offset or come later. Raises CorruptBatch."""
        return self.batches_of(BatchWalk(self.records, check_crc=check_crc))

    def batches_of(self, walk: BatchWalk) -> Iterator[RecordBatch]:
        """The same for who walks over the records himself, and may leave some out."""
        for batch in walk:
            if batch.last_offset >= self.fetch_offset:
                yield batch
        if walk.flaw is not None and walk.flaw.kind is not FlawKind.INCOMPLETE:
            raise CorruptBatch(
                f"partition {self.partition}: {walk.flaw.kind.value} at offset {walk.next_offset}"
            )

    def next_offset(self) -> Offset:
        """Where to fetch on: the log may have holes, so the batches must say. Raises
        CorruptBatch."""
        position, offset = records.skip_batches(self.records, 0, 0, 0, False)
        walk = BatchWalk(self.records, position, next_offset_min=offset, check_crc=False)
        for _ in self.batches_of(walk):
            pass
        return max(self.fetch_offset, walk.next_offset)


def fetch(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, Offset],
    *,
    limits: FetchLimits = FetchLimits(),  # noqa: B008  # a tuple cannot be changed by a call
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> Steps[dict[TopicPartition, Fetched]]:
    """Each partition's batches from its offset on, possibly none. OFFSET_OUT_OF_RANGE and what
    else does not pass is raised, for the first partition that has it."""

    def request(cluster: Cluster, work: Mapping[TopicPartition, Offset]) -> FetchRequest:
        return _request(cluster, work, limits, isolation)

    def results(cluster: Cluster, answer: Message) -> Iterator[PartitionResult[Fetched]]:
        return _results(cluster, answer, offsets)

    call = PartitionCall(request, results, names_topics_by_id=True)
    return (yield from ask_leaders(cluster, call, offsets, Attempts(cluster, timeout_ms)))


def _request(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, Offset],
    limits: FetchLimits,
    isolation: IsolationLevel,
) -> FetchRequest:
    topics = tuple(
        FetchTopic(
            topic=name,
            topic_id=cluster.topics[name].topic_id,
            partitions=tuple(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=cluster.topics[name].leaders[index].leader_epoch,
                    fetch_offset=offset,
                    partition_max_bytes=limits.partition_max_bytes,
                )
                for index, offset in partitions
            ),
        )
        for name, partitions in group_by_topic(offsets).items()
    )
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=isolation,
        topics=topics,
    )


def _results(
    cluster: Cluster, answer: Message, offsets: Mapping[TopicPartition, Offset]
) -> Iterator[PartitionResult[Fetched]]:
    assert isinstance(answer, FetchResponse)
    if answer.error_code:
        raise BrokerError(answer.error_code, about="fetch")
    for topic in answer.responses:
        name = topic.topic or cluster.topic_name(topic.topic_id)
        if name is None:
            continue
        for data in topic.partitions:
            partition = TopicPartition(name, data.partition_index)
            if partition in offsets:
                fetched = Fetched(
                    partition,
                    offsets[partition],
                    memoryview(data.records or b""),
                    data.high_watermark,
                    data.last_stable_offset,
                    data.log_start_offset,
                    data.aborted_transactions or (),
                )
                yield PartitionResult(partition, data.error_code, None, fetched)


class PartitionReader:
    """Reads a partition from start_offset to end_offset, one fetch ahead of its caller.

        reader = PartitionReader(partition, start_offset, end_offset)
        while (fetched := client.run(reader.read)) is not None: ...
        client.run(reader.close)

    Batches at both ends may hold records outside the range: the decoder leaves them out.
    """

    def __init__(
        self,
        partition: TopicPartition,
        start_offset: Offset,
        end_offset: Offset = OFFSET_END_MAX,
        *,
        limits: FetchLimits = FetchLimits(max_bytes=16 << 20, partition_max_bytes=4 << 20),  # noqa: B008
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> None:
        self.partition = partition
        self.position = start_offset
        """The next offset that `read` returns."""
        self.end_offset = end_offset
        self.limits = limits
        self.isolation = isolation
        self._offset_bytes: float = OFFSET_BYTES
        self._ticket: int | None = None

    def read(self, cluster: Cluster, *, timeout_ms: int | None = None) -> Steps[Fetched | None]:
        """The next batches; without any where the log has no more yet; None at end_offset."""
        if self.position >= self.end_offset:
            return None
        attempts = Attempts(cluster, timeout_ms)
        while True:
            if self._ticket is None:
                yield from self._start(cluster, attempts)
            assert self._ticket is not None
            ticket, self._ticket = self._ticket, None
            reply = yield from finish(ticket)
            outcome = self._outcome(cluster, reply)
            if isinstance(outcome, Fetched):
                break
            cluster.forget([self.partition.topic])
            yield from attempts.again(outcome)
        self.position = outcome.next_offset()
        if self.position > outcome.fetch_offset:
            self._offset_bytes = len(outcome.records) / (self.position - outcome.fetch_offset)
        if outcome.fetch_offset < self.position < self.end_offset:
            yield from self._start(cluster, attempts)
        return outcome

    def close(self, cluster: Cluster) -> Steps[None]:
        """Forget the answer that is on its way."""
        if self._ticket is not None:
            ticket, self._ticket = self._ticket, None
            yield Abandon(ticket)

    def _start(self, cluster: Cluster, attempts: Attempts) -> Steps[None]:
        work = {self.partition: self.position}
        yield from find_leaders(cluster, work, attempts)
        leader = cluster.leader_of(self.partition)
        assert leader is not None
        request = _request(cluster, work, self._limits(), self.isolation)
        # Nobody waits yet for a fetch that runs ahead, so the operation's deadline is not its.
        timeout_ms = cluster.settings.request_timeout_ms + self.limits.max_wait_ms
        ask = Ask(
            cluster.brokers[leader.node_id], request, timeout_ms, version_limit(cluster, work)
        )
        self._ticket = yield from start(ask)

    def _limits(self) -> FetchLimits:
        """What is left of the range and a bit more: who reads a few records of a long log need
        not be sent megabytes of it."""
        left = (self.end_offset - self.position) * self._offset_bytes * 1.25
        most = self.limits.partition_max_bytes
        return self.limits._replace(
            partition_max_bytes=min(most, int(max(left, LAST_FETCH_BYTES_MIN)))
        )

    def _outcome(
        self, cluster: Cluster, reply: Message | ClientError | None
    ) -> Fetched | ClientError:
        if isinstance(reply, ClientError):
            return reply
        assert reply is not None
        for result in _results(cluster, reply, {self.partition: self.position}):
            if not result.error_code:
                return result.value
            return BrokerError(result.error_code, about=f"partition {self.partition}")
        # The topic was created anew meanwhile: its id is not the one we know.
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, about=f"partition {self.partition}")
