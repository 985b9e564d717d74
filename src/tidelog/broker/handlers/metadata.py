"""Metadata, DescribeTopicPartitions: who is there and who leads what."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from tidelog.controller.names import name_complaint
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage, PartitionState, Topic
from tidelog.runtime.handlers.cluster import CLUSTER_ALL, NOT_ASKED, brokers
from tidelog.slices import Slices, each
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
IDS_ASKED_SINCE = 12
TOPIC_ALL = 3576
"""Every operation on a topic, a bit each: without authorization all may all."""
PARTITIONS_A_PAGE_MAX = 2000
PARTITION_COST = 3
"""Microseconds."""


def metadata(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, MetadataRequest)
    image, asked = broker.image, message.topics
    alive = brokers(image, broker.listener)
    if request.version < IDS_ASKED_SINCE:
        for wanted in asked or ():
            if wanted.name is None or wanted.topic_id != ZERO_UUID:
                return (yield from _refused(message))
            yield 1
    operations = TOPIC_ALL if message.include_topic_authorized_operations else NOT_ASKED
    topics = []
    if asked is None or (not asked and request.version == 0):
        for known in image.topics.values():
            topics.append((yield from _topic(image, known, operations)))
    else:
        for wanted in asked:
            topics.append((yield from _asked(broker, image, wanted, message, operations, now)))
    return MetadataResponse(
        brokers=alive,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=tuple(topics),
        cluster_authorized_operations=(
            CLUSTER_ALL if message.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refused(message: MetadataRequest) -> Slices[MetadataResponse]:
    """Versions 10 and 11 have ids in their form, but nobody could ask by them."""
    topics = yield from each(
        message.topics or (),
        lambda topic: _no_topic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id),
        PARTITION_COST,
    )
    return MetadataResponse(brokers=(), topics=topics)


def _asked(
    broker: Broker,
    image: MetadataImage,
    asked: MetadataRequestTopic,
    message: MetadataRequest,
    operations: int,
    now: Now,
) -> Slices[MetadataResponseTopic]:
    yield PARTITION_COST
    if asked.topic_id != ZERO_UUID:
        topic = image.topic_by_id(asked.topic_id)
        if topic is None:
            return _no_topic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return (yield from _topic(image, topic, operations))
    if asked.name is None:
        return _no_topic(ErrorCode.INVALID_REQUEST, None)
    topic = image.topic(asked.name)
    if topic is not None:
        return (yield from _topic(image, topic, operations))
    if not _is_legal(asked.name):
        return _no_topic(ErrorCode.INVALID_TOPIC_EXCEPTION, asked.name)
    if not message.allow_auto_topic_creation or not broker.config.auto_create_topics_enable:
        return _no_topic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.name)
    return _no_topic(broker.automatic_topics.create(asked.name, now), asked.name)


def _is_legal(name: str) -> bool:
    return name_complaint(name) is None


def _no_topic(
    error: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID
) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=())


def _topic(image: MetadataImage, topic: Topic, operations: int) -> Slices[MetadataResponseTopic]:
    partitions = yield from each(
        topic.partitions.items(), lambda entry: _partition(image, *entry), PARTITION_COST
    )
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partition(
    image: MetadataImage, index: int, state: PartitionState
) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=_offline(image, state),
    )


def _offline(image: MetadataImage, state: PartitionState) -> tuple[int, ...]:
    return tuple(replica for replica in state.replicas if not image.is_online(replica, state))


def describe_topic_partitions(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    """Topics by name, page by page: the cursor says where the last page ended."""
    message = request.message
    assert isinstance(message, DescribeTopicPartitionsRequest)
    image, cursor = broker.image, message.cursor
    if cursor is not None and cursor.partition_index < 0:
        return DescribeTopicPartitionsResponse(topics=())
    names = sorted({topic.name for topic in message.topics}) or list(image.topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(message.response_partition_limit, PARTITIONS_A_PAGE_MAX))
    topics = []
    next_cursor = None
    for name in names:
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        if room == 0:
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topic(name)
        yield PARTITION_COST
        if topic is None:
            topics.append(_undescribed(name))
            continue
        shown = list(islice(topic.partitions.items_from(first), room + 1))
        rest = shown[room:]
        topics.append((yield from _described(image, topic, shown[:room])))
        if rest:
            next_cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=rest[0][0]
            )
            break
        room -= len(shown)
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)


def _undescribed(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if _is_legal(name)
            else ErrorCode.INVALID_TOPIC_EXCEPTION
        ),
        name=name,
        topic_id=ZERO_UUID,
        partitions=(),
        topic_authorized_operations=TOPIC_ALL,
    )


def _described(
    image: MetadataImage, topic: Topic, shown: list[tuple[int, PartitionState]]
) -> Slices[DescribeTopicPartitionsResponseTopic]:
    partitions = []
    for index, state in shown:
        yield PARTITION_COST
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=(
                    ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
                ),
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                eligible_leader_replicas=state.eligible_leader_replicas,
                last_known_elr=state.last_known_elr,
                offline_replicas=_offline(image, state),
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(partitions),
        topic_authorized_operations=TOPIC_ALL,
    )
