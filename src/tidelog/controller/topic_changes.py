"""DeleteTopics and CreatePartitions: what happens to topics that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import PARTITION_COST, RECORDS_MAX, Decision, Refused
from tidelog.controller.topics import (
    assigned_partition,
    partition_records,
    place_new_partitions,
)
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage, Topic
from tidelog.metadata.records.topics import RemoveTopicRecord
from tidelog.slices import Slices, each
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from tidelog.env import Rng

UNKNOWN_TOPIC = "This server does not host this topic-partition."
UNKNOWN_ID = "This server does not host this topic ID."


def delete_topics(
    image: MetadataImage, request: DeleteTopicsRequest, config: BrokerConfig
) -> Slices[Decision[DeleteTopicsResponse]]:
    """One record a topic; its partitions and configs go with it."""
    wanted = request.topics or tuple(
        DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names
    )
    counts: Counter[tuple[str | None, Uuid]] = Counter()
    for state in wanted:
        counts[state.name, state.topic_id] += 1
        yield 1
    records: list[Message] = []
    results: list[DeletableTopicResult] = []
    removed: set[str] = set()
    for (name, topic_id), times in counts.items():
        yield PARTITION_COST
        state = DeleteTopicState(name=name, topic_id=topic_id)
        try:
            if not config.delete_topic_enable:
                raise Refused(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            if times > 1:
                kind = "id" if state.name is None else "name"
                raise Refused(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
            topic = topic_to_delete(image, state)
            if topic.name in removed:
                # Once by its name and once by its id.
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
        except Refused as refused:
            results.append(
                DeletableTopicResult(
                    name=state.name,
                    topic_id=state.topic_id,
                    error_code=refused.code,
                    error_message=refused.message,
                )
            )
        else:
            removed.add(topic.name)
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(
                DeletableTopicResult(
                    name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE
                )
            )
    return Decision(records, DeleteTopicsResponse(responses=tuple(results)))


def topic_to_delete(image: MetadataImage, state: DeleteTopicState) -> Topic:
    """By name or by id, not by both."""
    if state.name is None and state.topic_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if state.name is not None:
        topic = image.topic(state.name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)
    else:
        topic = image.topic_by_id(state.topic_id)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_ID)
    return topic


def create_partitions(
    image: MetadataImage, request: CreatePartitionsRequest, rng: Rng
) -> Slices[Decision[CreatePartitionsResponse]]:
    """More partitions for topics that are there; records with keys go elsewhere from then on."""
    counts = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results: list[CreatePartitionsTopicResult] = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        yield PARTITION_COST
        try:
            if counts[topic.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            made = yield from added_partitions(image, topic, rng)
            if len(records) + len(made) > RECORDS_MAX:
                raise Refused(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request.",
                )
            records += made
            code, message = ErrorCode.NONE, None
        except Refused as refused:
            code, message = refused.code, refused.message
        results.append(
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
        )
    return Decision(
        [] if request.validate_only else records, CreatePartitionsResponse(results=tuple(results))
    )


def added_partitions(
    image: MetadataImage, wanted: CreatePartitionsTopic, rng: Rng
) -> Slices[Sequence[Message]]:
    topic = image.topic(wanted.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    there = len(topic.partitions)
    if wanted.count == there:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {there} partition(s).")
    if wanted.count < there:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {there} partition(s);"
            f" {wanted.count} would not be an increase.",
        )
    additional = wanted.count - there
    if additional > RECORDS_MAX:
        raise Refused(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        states = yield from place_new_partitions(image, additional, replication_factor, rng)
    else:
        if len(wanted.assignments) != additional:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only"
                f" {len(wanted.assignments)} assignment(s) were specified.",
            )
        states = yield from each(
            enumerate(wanted.assignments, there),
            lambda entry: assigned_partition(
                image, entry[0], entry[1].broker_ids, replication_factor
            ),
            PARTITION_COST,
        )
    return (yield from partition_records(topic.topic_id, there, states))
