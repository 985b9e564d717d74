"""CreateTopics: by hand or by placement, with configs, and by default when a client asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.config.broker import BrokerConfig
from tidelog.controller.config_changes import created_topic_configs
from tidelog.controller.decision import (
    PARTITION_COST,
    RECORDS_MAX,
    TOPIC_COST,
    Decision,
    Refused,
)
from tidelog.controller.effective_configs import effective_topic_configs
from tidelog.controller.names import CLUSTER_METADATA_TOPIC, collision, require_legal_name
from tidelog.controller.placement import members_of, place_replicas
from tidelog.errors import ErrorCode
from tidelog.metadata.format import random_uuid
from tidelog.metadata.image import UNASSIGNED_DIRECTORY, MetadataImage, PartitionState
from tidelog.metadata.records.topics import TopicRecord
from tidelog.metadata.snapshot import partition_record
from tidelog.slices import Slices, each
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.env import Rng

PARTITIONS_MAX = RECORDS_MAX
"""Of one request."""


def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, config: BrokerConfig, rng: Rng
) -> Slices[Decision[CreateTopicsResponse]]:
    """Every topic by itself is made or refused; what is made stands in one batch."""
    counts: Counter[str] = Counter()
    planned = 0
    for topic in request.topics:
        counts[topic.name] += 1
        planned += partition_count(topic, config)
        yield 1
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    answered: set[str] = set()
    for topic in request.topics:
        yield PARTITION_COST
        if topic.name in answered:
            continue
        answered.add(topic.name)
        try:
            if counts[topic.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if planned > PARTITIONS_MAX:
                raise Refused(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request.",
                )
            made, result = yield from create_topic(image, topic, config, rng)
        except Refused as refused:
            results.append(
                CreatableTopicResult(
                    name=topic.name, error_code=refused.code, error_message=refused.message
                )
            )
        else:
            records += made
            results.append(result)
    return Decision(
        [] if request.validate_only else records, CreateTopicsResponse(topics=tuple(results))
    )


def partition_count(topic: CreatableTopic, config: BrokerConfig) -> int:
    """How many partitions a topic asks for, by itself, by its assignments or by default."""
    if topic.assignments:
        return len(topic.assignments)
    return config.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def create_topic(
    image: MetadataImage, topic: CreatableTopic, config: BrokerConfig, rng: Rng
) -> Slices[tuple[list[Message], CreatableTopicResult]]:
    """The records of one topic and its answer, or Refused."""
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
        )
    require_legal_name(topic.name)
    other = collision(image, topic.name)
    if topic.name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if other is not None:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{topic.name}' collides with existing topic: {other}",
        )
    config_records = created_topic_configs(image, topic, config)
    yield TOPIC_COST
    if topic.assignments:
        partitions = yield from assigned_partitions(image, topic)
    else:
        partitions = yield from placed_partitions(image, topic, config, rng)
    topic_id = random_uuid(rng)
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id), *config_records]
    records += yield from partition_records(topic_id, 0, partitions)
    shown = shown_configs(image, topic, config)
    yield 2 * TOPIC_COST
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=shown,
    )
    return records, result


def partition_records(
    topic_id: Uuid, first: int, states: Sequence[PartitionState]
) -> Slices[tuple[Message, ...]]:
    """Of new partitions, from this number on."""
    return (
        yield from each(
            enumerate(states, first),
            lambda entry: partition_record(topic_id, *entry),
            PARTITION_COST,
        )
    )


def shown_configs(
    image: MetadataImage, topic: CreatableTopic, config: BrokerConfig
) -> tuple[CreatableTopicConfigs, ...]:
    """What the new topic works with, and where each value comes from."""
    own = {one.name: one.value for one in topic.configs if one.value is not None}
    return tuple(
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=False,
            config_source=entry.source,
            is_sensitive=False,
        )
        for entry in effective_topic_configs(image, own, config, as_described=False)
    )


def assigned_partitions(
    image: MetadataImage, topic: CreatableTopic
) -> Slices[Sequence[PartitionState]]:
    """Where the caller says which broker gets what."""
    said = "A manual partition assignment was specified, but"
    if topic.replication_factor != -1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{said} replication factor was not set to -1.")
    if topic.num_partitions != -1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{said} numPartitions was not set to -1.")
    states: dict[int, PartitionState] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        number = assignment.partition_index
        if number in states:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {number}",
            )
        states[number] = assigned_partition(
            image, number, assignment.broker_ids, replication_factor
        )
        replication_factor = len(assignment.broker_ids)
        yield PARTITION_COST
    if sorted(states) != list(range(len(states))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [states[number] for number in sorted(states)]


def assigned_partition(
    image: MetadataImage,
    number: int,
    replicas: Sequence[int],
    replication_factor: int | None,
) -> PartitionState:
    """A partition on these brokers, or Refused."""
    require_assignment(image, replicas, replication_factor)
    state = new_partition(image, replicas)
    if not state.isr:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition"
            f" {number} are fenced or in controlled shutdown.",
        )
    return state


def require_assignment(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """The rules of an assignment by hand; Refused says which is broken."""
    includes = "The manual partition assignment includes"
    complaint = None
    if not replicas:
        complaint = f"{includes} an empty replica list."
    before: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            complaint = f"{includes} broker {broker_id}, but no such broker is registered."
        elif broker_id == before:
            complaint = f"{includes} the broker {broker_id} more than once."
        if complaint is not None:
            break
        before = broker_id
    if complaint is None and replication_factor not in (None, len(replicas)):
        complaint = (
            f"{includes} a partition with {len(replicas)} replica(s), but this is not consistent"
            f" with previous partitions, which have {replication_factor} replica(s)."
        )
    if complaint is not None:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, complaint)


def placed_partitions(
    image: MetadataImage, topic: CreatableTopic, config: BrokerConfig, rng: Rng
) -> Slices[Sequence[PartitionState]]:
    """Where the controller chooses."""
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = (
        config.default_replication_factor
        if topic.replication_factor == -1
        else topic.replication_factor
    )
    count = partition_count(topic, config)
    return (yield from place_new_partitions(image, count, factor, rng))


def place_new_partitions(
    image: MetadataImage, count: int, replication_factor: int, rng: Rng
) -> Slices[Sequence[PartitionState]]:
    states = yield from each(
        place_replicas(members_of(image), count, replication_factor, rng),
        lambda replicas: new_partition(image, replicas),
        PARTITION_COST,
    )
    if not all(state.isr for state in states):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are"
            " currently fenced or in controlled shutdown.",
        )
    return states


def new_partition(image: MetadataImage, replicas: Sequence[int]) -> PartitionState:
    """Its ISR is the replicas that are active; the first of them leads."""
    isr = tuple(broker_id for broker_id in replicas if image.is_active(broker_id))
    return PartitionState(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0] if isr else -1,
        directories=tuple(directory_of(image, broker_id) for broker_id in replicas),
    )


def directory_of(image: MetadataImage, broker_id: int) -> Uuid:
    """The only directory of a broker; one of several is chosen by the broker, which reports it."""
    log_dirs = image.brokers[broker_id].log_dirs
    if not log_dirs:
        return ZERO_UUID
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY
