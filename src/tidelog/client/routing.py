"""Brings a request to the broker that can answer it, again and again until its deadline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from tidelog.client.cluster import Cluster, TopicPartition, topic_errors
from tidelog.client.errors import (
    Address,
    BrokerError,
    ClientError,
    DoesNotFit,
    TimedOut,
    UnsupportedByBroker,
)
from tidelog.client.steps import Ask, Pause, Steps, exchange
from tidelog.errors import ErrorCode
from tidelog.types import ZERO_UUID
from tidelog.wire.declare import Message
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)

M = TypeVar("M", bound=Message)
W = TypeVar("W")
R = TypeVar("R")

BROKERS_ENDPOINT, CONTROLLERS_ENDPOINT = 1, 2
"""Of whom DescribeCluster tells; each tells of its own kind."""

LAST_VERSION_WITH_NAMES = 12
"""Of Fetch and of Produce: both name topics by id from version 13 on."""

UNKNOWN_TOPIC_MS = 3_000
"""A topic just created may be unknown to the next broker for a moment; later it is unknown."""


class Attempts:
    """The tries of one operation: how long it has yet, and how long to wait between them."""

    def __init__(self, cluster: Cluster, timeout_ms: int | None = None) -> None:
        self.cluster = cluster
        self.timeout_ms = cluster.settings.timeout_ms if timeout_ms is None else timeout_ms
        self.start_ms = cluster.now_ms()
        self.failures = 0

    @property
    def elapsed_ms(self) -> int:
        return self.cluster.now_ms() - self.start_ms

    @property
    def left_ms(self) -> int:
        """Never below 1: who asks at the last moment gets an answer or a timeout."""
        return max(1, self.timeout_ms - self.elapsed_ms)

    @property
    def request_timeout_ms(self) -> int:
        """For one request."""
        return min(self.left_ms, self.cluster.settings.request_timeout_ms)

    def again(self, error: ClientError, *, limit_ms: int | None = None) -> Steps[None]:
        """Wait before the next attempt; raise the error if it is final, or TimedOut."""
        if not error.is_retriable:
            raise error
        limit_ms = self.timeout_ms if limit_ms is None else min(limit_ms, self.timeout_ms)
        settings = self.cluster.settings
        backoff = min(
            settings.retry_backoff_ms << min(self.failures, 10), settings.retry_backoff_ms_max
        )
        backoff = round(backoff * (0.8 + 0.4 * self.cluster.jitter()))
        self.failures += 1
        if self.elapsed_ms + backoff >= limit_ms:
            if isinstance(error, TimedOut):
                raise error
            raise TimedOut(f"gave up after {self.elapsed_ms / 1000:.1f} s: {error}") from error
        self.cluster.on_retry(error)
        yield Pause(backoff)


def ask_any(cluster: Cluster, request: M, answer: type[R], attempts: Attempts) -> Steps[R]:
    """Ask one broker after the other; the first answer."""
    while True:
        failure: ClientError | None = None
        for address in cluster.addresses():
            reply = yield from ask_one(cluster, address, request, answer, attempts)
            if not isinstance(reply, ClientError):
                return reply
            if failure is None or isinstance(reply, UnsupportedByBroker | DoesNotFit):
                failure = reply
        assert failure is not None
        limit_ms = None if cluster.brokers else cluster.settings.bootstrap_timeout_ms
        yield from attempts.again(failure, limit_ms=limit_ms)


def ask_one(
    cluster: Cluster, address: Address, request: Message, answer: type[R], attempts: Attempts
) -> Steps[R | ClientError]:
    """Ask this broker, once."""
    (reply,) = yield from exchange([Ask(address, request, attempts.request_timeout_ms)])
    if isinstance(reply, ClientError):
        cluster.failed(address)
        return reply
    cluster.answered(address)
    assert isinstance(reply, answer)
    return reply


def ask_controller(cluster: Cluster, request: M, answer: type[R], attempts: Attempts) -> Steps[R]:
    """What only the controller decides: any broker forwards it, but spares the way where the
    controller is a broker too."""
    if not cluster.brokers:
        yield from refresh(cluster, (), attempts)
    address = cluster.brokers.get(cluster.controller_id)
    if address is not None:
        reply = yield from ask_one(cluster, address, request, answer, attempts)
        if not isinstance(reply, ClientError):
            return reply
        if not reply.is_retriable:
            raise reply
    result = yield from ask_any(cluster, request, answer, attempts)
    return result


def ask_controller_whole(
    cluster: Cluster, request: M, answer: type[R], attempts: Attempts, about: str
) -> Steps[R]:
    """The same for answers that have an error of their own, which may pass."""
    while True:
        result: Any = yield from ask_controller(cluster, request, answer, attempts)
        if not result.error_code:
            return cast(R, result)
        message = getattr(result, "error_message", None)
        yield from attempts.again(BrokerError(result.error_code, message, about=about))
        yield from refresh(cluster, (), attempts)


def refresh(
    cluster: Cluster,
    topics: Collection[str] | None,
    attempts: Attempts,
    *,
    allow_auto_topic_creation: bool = False,
) -> Steps[MetadataResponse]:
    """Ask for the brokers and for these topics (None: all of them), and remember the answer."""
    if cluster.settings.are_controllers:
        found = yield from _refresh_controllers(cluster, attempts)
        return found
    wanted = None
    if topics is not None:
        wanted = tuple(MetadataRequestTopic(name=name) for name in sorted(topics))
    request = MetadataRequest(
        topics=wanted, allow_auto_topic_creation=allow_auto_topic_creation and bool(topics)
    )
    while True:
        answer = yield from ask_any(cluster, request, MetadataResponse, attempts)
        if answer.brokers and not answer.error_code:
            cluster.learn(answer)
            return answer
        # A node that has not joined yet, or a cluster id that is not ours any more.
        cluster.brokers.clear()
        waiting = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "the cluster has no live broker yet")
        yield from attempts.again(waiting)


def _refresh_controllers(cluster: Cluster, attempts: Attempts) -> Steps[MetadataResponse]:
    """Controllers know nothing of Metadata; what they say of each other is remembered as it."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS_ENDPOINT
    )
    while True:
        answer = yield from ask_any(cluster, request, DescribeClusterResponse, attempts)
        if answer.error_code:
            message, about = answer.error_message, "the controllers"
            yield from attempts.again(BrokerError(answer.error_code, message, about=about))
            continue
        controllers = tuple(
            MetadataResponseBroker(node_id=one.broker_id, host=one.host, port=one.port)
            for one in answer.brokers
        )
        found = MetadataResponse(
            brokers=controllers,
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            topics=(),
        )
        cluster.learn(found)
        return found


def learn_topics(
    cluster: Cluster,
    topics: Collection[str],
    attempts: Attempts,
    *,
    allow_auto_topic_creation: bool = False,
    unknown_topic_ms: int = UNKNOWN_TOPIC_MS,
) -> Steps[None]:
    """Know these topics' partitions, or raise what is wrong with one of them."""
    while True:
        answer = yield from refresh(
            cluster, topics, attempts, allow_auto_topic_creation=allow_auto_topic_creation
        )
        errors = topic_errors(answer)
        if not errors:
            return
        error = errors[min(errors)]
        is_unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_unknown and attempts.elapsed_ms >= unknown_topic_ms:
            raise error
        yield from attempts.again(error)


class PartitionResult(NamedTuple, Generic[R]):
    """What a leader answered about one partition."""

    partition: TopicPartition
    error_code: int
    message: str | None
    value: R


class PartitionCall(NamedTuple, Generic[W, R]):
    """A request about partitions, which their leaders answer. `request` builds it of the parts
    that one leader has, `results` reads its answer."""

    request: Callable[[Cluster, Mapping[TopicPartition, W]], Message]
    results: Callable[[Cluster, Message], Iterable[PartitionResult[R]]]
    names_topics_by_id: bool = False
    expects_answer: bool = True
    allow_auto_topic_creation: bool = False


def ask_leaders(
    cluster: Cluster,
    call: PartitionCall[W, R],
    work: Mapping[TopicPartition, W],
    attempts: Attempts,
) -> Steps[dict[TopicPartition, R]]:
    """Ask every leader at once, and again about what failed for a reason that passes. Raises
    the first error that does not."""
    done: dict[TopicPartition, R] = {}
    left = dict(work)
    while left:
        yield from find_leaders(cluster, left, attempts, call.allow_auto_topic_creation)
        groups = group_by_leader(cluster, left)
        asks = [
            Ask(
                address,
                call.request(cluster, part),
                attempts.request_timeout_ms,
                version_limit(cluster, part) if call.names_topics_by_id else None,
                call.expects_answer,
            )
            for address, part in groups
        ]
        replies = yield from exchange(asks)
        failure: ClientError | None = None
        for (address, part), reply in zip(groups, replies, strict=True):
            error: ClientError | None = None
            if isinstance(reply, ClientError):
                cluster.failed(address)
                cluster.forget({partition.topic for partition in part})
                error = reply
            elif reply is None:
                left = {p: item for p, item in left.items() if p not in part}
            else:
                error = _take_results(cluster, call.results(cluster, reply), done)
                left = {p: item for p, item in left.items() if p not in done}
            if failure is None or (error is not None and not error.is_retriable):
                failure = error
        if left:
            missing = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no answer about {min(left)}")
            yield from attempts.again(failure or missing)
    return {partition: done[partition] for partition in work if partition in done}


def _take_results(
    cluster: Cluster, results: Iterable[PartitionResult[R]], done: dict[TopicPartition, R]
) -> BrokerError | None:
    """The error that matters most, if there is one."""
    failure: BrokerError | None = None
    for result in results:
        if not result.error_code:
            done[result.partition] = result.value
            continue
        cluster.forget([result.partition.topic])
        if failure is None or failure.is_retriable:
            about = f"partition {result.partition}"
            failure = BrokerError(result.error_code, result.message, about=about)
    return failure


def find_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    attempts: Attempts,
    allow_auto_topic_creation: bool = False,
) -> Steps[None]:
    """Wait until every partition has a leader whose address is known."""
    while True:
        lost = [p for p in partitions if cluster.leader_of(p) is None]
        if not lost:
            return
        topics = {partition.topic for partition in lost}
        yield from learn_topics(
            cluster, topics, attempts, allow_auto_topic_creation=allow_auto_topic_creation
        )
        for partition in lost:
            if partition.partition not in cluster.topics[partition.topic].leaders:
                count = cluster.partition_count(partition.topic)
                raise BrokerError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"there is no such partition: the topic has {count}",
                    about=f"partition {partition}",
                )
        lost = [p for p in lost if cluster.leader_of(p) is None]
        if lost:
            about = f"partition {lost[0]}"
            yield from attempts.again(BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, about=about))


def group_by_leader(
    cluster: Cluster, work: Mapping[TopicPartition, W]
) -> list[tuple[Address, dict[TopicPartition, W]]]:
    """Each leader's part of the work; every leader must be known."""
    groups: dict[Address, dict[TopicPartition, W]] = {}
    for partition, item in work.items():
        leader = cluster.leader_of(partition)
        if leader is not None:
            groups.setdefault(cluster.brokers[leader.node_id], {})[partition] = item
    return list(groups.items())


def group_by_topic(work: Mapping[TopicPartition, W]) -> dict[str, list[tuple[int, W]]]:
    """As requests want it: partitions under their topic."""
    topics: dict[str, list[tuple[int, W]]] = {}
    for partition, item in work.items():
        topics.setdefault(partition.topic, []).append((partition.partition, item))
    return topics


def version_limit(cluster: Cluster, partitions: Iterable[TopicPartition]) -> int | None:
    """Where an old broker told no topic ids, names must do."""
    ids = (cluster.topics[partition.topic].topic_id for partition in partitions)
    return LAST_VERSION_WITH_NAMES if ZERO_UUID in ids else None
