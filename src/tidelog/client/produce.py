"""The Produce request: batches to leaders, once each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from struct import Struct as Packing
from typing import NamedTuple

from tidelog.client.cluster import Cluster, TopicPartition
from tidelog.client.errors import BrokerError
from tidelog.client.routing import (
    Attempts,
    PartitionCall,
    PartitionResult,
    ask_any,
    ask_leaders,
    group_by_topic,
)
from tidelog.client.steps import Steps
from tidelog.types import Offset
from tidelog.wire.batch import renew_crc
from tidelog.wire.declare import Message
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_ALL, ACKS_LEADER, ACKS_NONE = -1, 1, 0

Batch = bytearray | memoryview
"""One batch, in memory that may be written: a producer stamps its id and sequence into it."""

_PRODUCER = Packing(">qhi")
_PRODUCER_POSITION = 43


class Produced(NamedTuple):
    """Where a batch lies now."""

    base_offset: Offset
    """-1 if the broker had it already and does not remember where, or with acks=0."""
    log_append_time_ms: int
    log_start_offset: Offset


class ProducerIdentity(NamedTuple):
    """By which brokers recognise a producer's batches."""

    producer_id: int
    producer_epoch: int


def init_producer_id(cluster: Cluster, *, timeout_ms: int | None = None) -> Steps[ProducerIdentity]:
    """A new identity for an idempotent producer."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2147483647)
    attempts = Attempts(cluster, timeout_ms)
    while True:
        answer = yield from ask_any(cluster, request, InitProducerIdResponse, attempts)
        if not answer.error_code:
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)
        error = BrokerError(answer.error_code, about="producer id")
        yield from attempts.again(error)


def last_sequences(
    cluster: Cluster,
    identity: ProducerIdentity,
    partitions: Collection[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> Steps[dict[TopicPartition, int | None]]:
    """The sequence of the last record of this producer that each partition has; None where its
    leader does not know the producer."""

    def request(cluster: Cluster, work: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
        topics = tuple(
            TopicRequest(name=name, partition_indexes=tuple(index for index, _ in parts))
            for name, parts in group_by_topic(work).items()
        )
        return DescribeProducersRequest(topics=topics)

    def results(_: Cluster, answer: Message) -> Iterator[PartitionResult[int | None]]:
        assert isinstance(answer, DescribeProducersResponse)
        for topic in answer.topics:
            for found in topic.partitions:
                last = next(
                    (
                        state.last_sequence
                        for state in found.active_producers
                        if (state.producer_id, state.producer_epoch) == identity
                    ),
                    None,
                )
                partition = TopicPartition(topic.name, found.partition_index)
                yield PartitionResult(partition, found.error_code, found.error_message, last)

    attempts = Attempts(cluster, timeout_ms)
    call = PartitionCall(request, results)
    return (yield from ask_leaders(cluster, call, dict.fromkeys(partitions), attempts))


def stamp(batch: Batch, identity: ProducerIdentity, base_sequence: int) -> None:
    """Make the batch one of this producer's, in place."""
    _PRODUCER.pack_into(batch, _PRODUCER_POSITION, *identity, base_sequence)
    renew_crc(batch, 0)


def produce(
    cluster: Cluster,
    batches: Mapping[TopicPartition, Batch],
    *,
    acks: int = ACKS_ALL,
    timeout_ms: int | None = None,
    allow_auto_topic_creation: bool = False,
) -> Steps[dict[TopicPartition, Produced]]:
    """One batch to each partition. At least once: an attempt whose answer was lost is repeated,
    and without an identity in it the broker cannot tell. Empty with acks=0."""
    attempts = Attempts(cluster, timeout_ms)

    def request(cluster: Cluster, work: Mapping[TopicPartition, Batch]) -> ProduceRequest:
        return produce_request(cluster, work, acks, attempts.request_timeout_ms)

    call = PartitionCall(
        request,
        produce_results,
        names_topics_by_id=True,
        expects_answer=acks != ACKS_NONE,
        allow_auto_topic_creation=allow_auto_topic_creation,
    )
    return (yield from ask_leaders(cluster, call, batches, attempts))


def produce_request(
    cluster: Cluster, batches: Mapping[TopicPartition, Batch], acks: int, timeout_ms: int
) -> ProduceRequest:
    """The request for one leader."""
    topics = tuple(
        TopicProduceData(
            name=name,
            topic_id=cluster.topics[name].topic_id,
            partition_data=tuple(
                PartitionProduceData(index=index, records=batch) for index, batch in partitions
            ),
        )
        for name, partitions in group_by_topic(batches).items()
    )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produce_results(cluster: Cluster, answer: Message) -> Iterator[PartitionResult[Produced]]:
    """What the leader says about each batch."""
    assert isinstance(answer, ProduceResponse)
    for topic in answer.responses:
        name = topic.name or cluster.topic_name(topic.topic_id)
        if name is None:
            continue
        for result in topic.partition_responses:
            message = result.error_message
            if result.record_errors:
                first = result.record_errors[0]
                message = f"record {first.batch_index}: {first.batch_index_error_message}"
            yield PartitionResult(
                TopicPartition(name, result.index),
                result.error_code,
                message,
                Produced(result.base_offset, result.log_append_time_ms, result.log_start_offset),
            )
