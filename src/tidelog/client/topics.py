"""Creates, describes, extends and deletes topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from tidelog.client.cluster import Cluster, topic_errors
from tidelog.client.errors import BrokerError, UnsupportedByBroker
from tidelog.client.routing import Attempts, ask_any, ask_controller, refresh
from tidelog.client.steps import Steps
from tidelog.errors import ErrorCode
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from tidelog.wire.messages.metadata import MetadataResponse

BROKER_DEFAULT = -1

R = TypeVar("R", bound=Message)


class NewTopic(NamedTuple):
    """A topic to create. With assignments (of each partition, the brokers) the two counts stay
    at BROKER_DEFAULT."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: tuple[tuple[int, ...], ...] = ()
    configs: Mapping[str, str] = {}


class MorePartitions(NamedTuple):
    """A topic to extend to so many partitions; assignments are those of the new ones."""

    name: str
    partitions: int
    assignments: tuple[tuple[int, ...], ...] = ()


class DescribedPartition(NamedTuple):
    """A partition; -1 as leader: it has none. The last two are None from older brokers."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None


class DescribedTopic(NamedTuple):
    """A topic with its partitions in order."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[DescribedPartition, ...]


Results = dict[str, BrokerError | None]
"""Of each topic, what went wrong."""


def create_topics(
    cluster: Cluster,
    topics: Iterable[NewTopic],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Steps[Results]:
    """Create topics, or with validate_only say whether it would succeed."""
    attempts = Attempts(cluster, timeout_ms)

    def request(wanted: Collection[NewTopic]) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            topics=tuple(_creatable(topic) for topic in wanted),
            timeout_ms=attempts.left_ms,
            validate_only=validate_only,
        )

    def results(answer: CreateTopicsResponse) -> Results:
        return {r.name: _error(r.name, r.error_code, r.error_message) for r in answer.topics}

    work = {topic.name: topic for topic in topics}
    return (
        yield from _ask_about_topics(
            cluster, work, request, CreateTopicsResponse, results, attempts
        )
    )


def create_partitions(
    cluster: Cluster,
    topics: Iterable[MorePartitions],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Steps[Results]:
    """Give topics more partitions; records stay where they are."""
    attempts = Attempts(cluster, timeout_ms)

    def request(wanted: Collection[MorePartitions]) -> CreatePartitionsRequest:
        extended = tuple(
            CreatePartitionsTopic(
                name=topic.name,
                count=topic.partitions,
                assignments=tuple(
                    CreatePartitionsAssignment(broker_ids=ids) for ids in topic.assignments
                )
                or None,
            )
            for topic in wanted
        )
        return CreatePartitionsRequest(
            topics=extended, timeout_ms=attempts.left_ms, validate_only=validate_only
        )

    def results(answer: CreatePartitionsResponse) -> Results:
        return {r.name: _error(r.name, r.error_code, r.error_message) for r in answer.results}

    work = {topic.name: topic for topic in topics}
    return (
        yield from _ask_about_topics(
            cluster, work, request, CreatePartitionsResponse, results, attempts
        )
    )


def delete_topics(
    cluster: Cluster, names: Iterable[str], *, timeout_ms: int | None = None
) -> Steps[Results]:
    """Delete topics with all their records."""
    attempts = Attempts(cluster, timeout_ms)

    def request(wanted: Collection[str]) -> DeleteTopicsRequest:
        topics = tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in wanted)
        return DeleteTopicsRequest(topics=topics, timeout_ms=attempts.left_ms)

    def results(answer: DeleteTopicsResponse) -> Results:
        return {
            r.name: _error(r.name, r.error_code, r.error_message)
            for r in answer.responses
            if r.name is not None
        }

    work = {name: name for name in names}
    return (
        yield from _ask_about_topics(
            cluster, work, request, DeleteTopicsResponse, results, attempts
        )
    )


W = TypeVar("W")


def _ask_about_topics(
    cluster: Cluster,
    work: dict[str, W],
    request: Callable[[Collection[W]], Message],
    kind: type[R],
    results: Callable[[R], Results],
    attempts: Attempts,
) -> Steps[Results]:
    """Ask the controller, and again about topics for which it was the wrong one."""
    done: Results = {}
    while True:
        message = request([item for name, item in work.items() if name not in done])
        answer = yield from ask_controller(cluster, message, kind, attempts)
        retry: BrokerError | None = None
        for name, error in results(answer).items():
            if error is not None and error.code in CONTROLLER_MOVED:
                retry = error
            else:
                done[name] = error
        cluster.forget(done)
        if retry is None:
            return done
        yield from attempts.again(retry)
        yield from refresh(cluster, (), attempts)


CONTROLLER_MOVED = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Errors that say nothing of the topic itself."""


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(topic.assignments)
        ),
        configs=tuple(
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ),
    )


def _error(name: str, code: int, message: str | None) -> BrokerError | None:
    return BrokerError(code, message, about=f"topic {name}") if code else None


def list_topics(
    cluster: Cluster, *, timeout_ms: int | None = None
) -> Steps[dict[str, DescribedTopic]]:
    """Every topic, by name."""
    answer = yield from refresh(cluster, None, Attempts(cluster, timeout_ms))
    return _described(answer)


def describe_topics(
    cluster: Cluster,
    names: Sequence[str],
    *,
    partitions_a_page: int | None = None,
    timeout_ms: int | None = None,
) -> Steps[dict[str, DescribedTopic]]:
    """These topics; one that does not exist is left out. Eligible leader replicas are told by
    brokers of Kafka 3.8 or newer, page by page, for an answer is bounded."""
    attempts = Attempts(cluster, timeout_ms)
    answer = yield from refresh(cluster, names, attempts)
    found = _described(answer)
    for name, error in sorted(topic_errors(answer).items()):
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
        assert name not in found
    if found:
        with suppress(UnsupportedByBroker):
            yield from _add_eligible_leaders(cluster, found, partitions_a_page, attempts)
    return found


def _described(answer: MetadataResponse) -> dict[str, DescribedTopic]:
    topics = {}
    for topic in sorted(answer.topics, key=lambda topic: topic.name or ""):
        if topic.name is not None and not topic.error_code:
            partitions = tuple(
                DescribedPartition(
                    p.partition_index,
                    p.leader_id,
                    p.leader_epoch,
                    p.replica_nodes,
                    p.isr_nodes,
                    p.offline_replicas,
                    None,
                    None,
                )
                for p in sorted(topic.partitions, key=lambda partition: partition.partition_index)
            )
            described = DescribedTopic(topic.name, topic.topic_id, topic.is_internal, partitions)
            topics[topic.name] = described
    return topics


def _add_eligible_leaders(
    cluster: Cluster,
    found: dict[str, DescribedTopic],
    partitions_a_page: int | None,
    attempts: Attempts,
) -> Steps[None]:
    details: dict[tuple[str, int], DescribeTopicPartitionsResponsePartition] = {}
    names = tuple(TopicRequest(name=name) for name in sorted(found))
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=names, cursor=cursor)
        if partitions_a_page is not None:
            request = request.replace(response_partition_limit=partitions_a_page)
        answer = yield from ask_any(cluster, request, DescribeTopicPartitionsResponse, attempts)
        for topic in answer.topics:
            for partition in topic.partitions:
                details[topic.name or "", partition.partition_index] = partition
        following = answer.next_cursor
        if following is None:
            break
        cursor = Cursor(topic_name=following.topic_name, partition_index=following.partition_index)
        names = tuple(t for t in names if t.name >= following.topic_name)
    for name, described in found.items():
        found[name] = described._replace(
            partitions=tuple(
                _with_eligible_leaders(p, details.get((name, p.partition)))
                for p in described.partitions
            )
        )


def _with_eligible_leaders(
    partition: DescribedPartition, detail: DescribeTopicPartitionsResponsePartition | None
) -> DescribedPartition:
    if detail is None:
        return partition
    return partition._replace(
        eligible_leader_replicas=detail.eligible_leader_replicas,
        last_known_elr=detail.last_known_elr,
    )
