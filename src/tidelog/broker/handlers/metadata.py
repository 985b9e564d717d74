"""Metadata, DescribeTopicPartitions: who is there and who leads what."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from tidelog.broker.leader_checks import CHECK_MS_MAX, HELD_PARTITIONS_MAX, LeaderChecks
from tidelog.controller.names import name_complaint
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import ConnectionId
from tidelog.metadata.image import PartitionState, Topic
from tidelog.replica.partition import NO_LEADER
from tidelog.runtime.answers import Answer
from tidelog.runtime.handlers.cluster import CLUSTER_ALL, NOT_ASKED, brokers
from tidelog.runtime.purgatory import Delayed
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


class View:
    """What one answer goes by: the metadata of a moment, but for leaders that are in doubt, and
    those of partitions that a client has yet to hear of that they lost theirs."""

    def __init__(self, broker: Broker, now: Now, connection: ConnectionId | None = None) -> None:
        self.image = broker.image
        self._now = now
        self._doubted = broker.leader_checks.doubted(now)
        self._moved = broker.moved_leaders
        self._connection = connection
        self.named: set[int] = set()
        self.missing: set[int] = set()
        """Brokers that lead nothing in this answer, though a client may believe so."""

    def leader(self, topic_id: Uuid, index: int, state: PartitionState) -> tuple[int, int]:
        """With its epoch. None rather than one that may be dead: a client that is told of it waits
        for it."""
        if state.leader in self._doubted:
            self.missing.add(state.leader)
            return NO_LEADER, state.leader_epoch
        if self._connection is not None:
            lost = self._moved.lost_by(self._connection, topic_id, index, self._now)
            if lost is not None:
                self.missing.add(lost.broker_id)
                return NO_LEADER, lost.leader_epoch
        self.named.add(state.leader)
        return state.leader, state.leader_epoch

    def leaves(self, now: Now) -> None:
        """The answer, to the client."""
        if self.missing and self._connection is not None:
            self._moved.told(self._connection, self.missing, now)

    def offline(self, state: PartitionState) -> tuple[int, ...]:
        is_online = self.image.is_online
        return tuple(replica for replica in state.replicas if not is_online(replica, state))


class DelayedMetadata(Delayed):
    """An answer whose leaders are being asked whether they are there."""

    is_large = True

    def __init__(self, told: MetadataResponse, checks: LeaderChecks, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self._told = told
        self._checks = checks
        self.size = sum(len(topic.partitions) for topic in told.topics)

    def expire(self, now: Now) -> Message:
        return self._told

    def forget(self) -> None:
        self._checks.held_partitions -= self.size


def metadata(request: Request, broker: Broker, now: Now) -> Slices[Answer]:
    """A client asks as soon as a connection of its breaks, perhaps before this broker knows that
    a leader is dead; told of it again, it would wait for that one (ADR 14)."""
    message, listener, connection = request.message, broker.listener, broker.connection
    assert isinstance(message, MetadataRequest)
    if request.version < IDS_ASKED_SINCE:
        for wanted in message.topics or ():
            if wanted.name is None or wanted.topic_id != ZERO_UUID:
                return (yield from _refused(message))
            yield 1
    view = View(broker, now, connection)
    answer = yield from _answer(request, broker, listener, view, now)
    now, checks = broker.jobs.fresh(now), broker.leader_checks
    delayed = DelayedMetadata(answer, checks, now.monotonic_ms + CHECK_MS_MAX)

    def tell(view: View, answer: MetadataResponse, now: Now) -> None:
        view.leaves(now)
        broker.purgatory.complete(delayed, answer)

    def checked(now: Now) -> None:
        if not view.named & checks.doubted(now):
            tell(view, answer, now)
        elif not delayed.is_done:
            other = View(broker, now, connection)
            again = _answer(request, broker, listener, other, now)
            broker.jobs.start(again, now, lambda told: tell(other, told, now))

    is_too_much = checks.held_partitions + delayed.size > HELD_PARTITIONS_MAX
    if is_too_much or not checks.check(view.named, checked, now):
        view.leaves(now)
        return answer
    checks.held_partitions += delayed.size
    return delayed


def _answer(
    request: Request, broker: Broker, listener: str, view: View, now: Now
) -> Slices[MetadataResponse]:
    message = request.message
    assert isinstance(message, MetadataRequest)
    asked = message.topics
    operations = TOPIC_ALL if message.include_topic_authorized_operations else NOT_ASKED
    topics = []
    if asked is None or (not asked and request.version == 0):
        for known in view.image.topics.values():
            topics.append((yield from _topic(view, known, operations)))
    else:
        for wanted in asked:
            topics.append((yield from _asked(broker, view, wanted, message, operations, now)))
    return MetadataResponse(
        brokers=brokers(view.image, listener),
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
    view: View,
    asked: MetadataRequestTopic,
    message: MetadataRequest,
    operations: int,
    now: Now,
) -> Slices[MetadataResponseTopic]:
    yield PARTITION_COST
    if asked.topic_id != ZERO_UUID:
        topic = view.image.topic_by_id(asked.topic_id)
        if topic is None:
            return _no_topic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return (yield from _topic(view, topic, operations))
    if asked.name is None:
        return _no_topic(ErrorCode.INVALID_REQUEST, None)
    topic = view.image.topic(asked.name)
    if topic is not None:
        return (yield from _topic(view, topic, operations))
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


def _topic(view: View, topic: Topic, operations: int) -> Slices[MetadataResponseTopic]:
    partitions = yield from each(
        topic.partitions.items(),
        lambda entry: _partition(view, topic.topic_id, *entry),
        PARTITION_COST,
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
    view: View, topic_id: Uuid, index: int, state: PartitionState
) -> MetadataResponsePartition:
    leader, leader_epoch = view.leader(topic_id, index, state)
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=leader,
        leader_epoch=leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=view.offline(state),
    )


def describe_topic_partitions(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    """Topics by name, page by page: the cursor says where the last page ended."""
    message = request.message
    assert isinstance(message, DescribeTopicPartitionsRequest)
    view, cursor = View(broker, now), message.cursor
    image = view.image
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
        topics.append((yield from _described(view, topic, shown[:room])))
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
    view: View, topic: Topic, shown: list[tuple[int, PartitionState]]
) -> Slices[DescribeTopicPartitionsResponseTopic]:
    partitions = []
    for index, state in shown:
        yield PARTITION_COST
        leader, leader_epoch = view.leader(topic.topic_id, index, state)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                eligible_leader_replicas=state.eligible_leader_replicas,
                last_known_elr=state.last_known_elr,
                offline_replicas=view.offline(state),
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
