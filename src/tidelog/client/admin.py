"""The cluster itself: its brokers and their disks."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidelog.client.cluster import Cluster
from tidelog.client.errors import (
    Address,
    BrokerError,
    ClientError,
    UnknownBroker,
    UnsupportedByBroker,
)
from tidelog.client.routing import (
    BROKERS_ENDPOINT,
    CONTROLLERS_ENDPOINT,
    Attempts,
    ask_any,
    ask_controller_whole,
    refresh,
)
from tidelog.client.steps import Ask, Steps, exchange
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tidelog.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


class DescribedBroker(NamedTuple):
    """A broker of the cluster."""

    node_id: int
    address: Address
    rack: str | None
    is_fenced: bool


class DescribedCluster(NamedTuple):
    """The cluster's brokers; fenced ones only from brokers of Kafka 4.0 or newer. Of controllers,
    the controllers."""

    cluster_id: str
    controller_id: int
    brokers: tuple[DescribedBroker, ...]


def describe_cluster(cluster: Cluster, *, timeout_ms: int | None = None) -> Steps[DescribedCluster]:
    """Who is in the cluster."""
    attempts = Attempts(cluster, timeout_ms)
    are_controllers = cluster.settings.are_controllers
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=CONTROLLERS_ENDPOINT if are_controllers else BROKERS_ENDPOINT,
        include_fenced_brokers=not are_controllers,
    )
    while True:
        try:
            answer = yield from ask_any(cluster, request, DescribeClusterResponse, attempts)
        except UnsupportedByBroker:
            if not request.include_fenced_brokers:
                raise
            request = DescribeClusterRequest(include_cluster_authorized_operations=False)
            continue
        if not answer.error_code:
            break
        error = BrokerError(answer.error_code, answer.error_message, about="describe cluster")
        yield from attempts.again(error)
    brokers = tuple(
        DescribedBroker(b.broker_id, Address(b.host, b.port), b.rack, b.is_fenced)
        for b in sorted(answer.brokers, key=lambda broker: broker.broker_id)
    )
    return DescribedCluster(answer.cluster_id, answer.controller_id, brokers)


def describe_log_dirs(
    cluster: Cluster, node_ids: Collection[int] | None = None, *, timeout_ms: int | None = None
) -> Steps[dict[int, tuple[DescribeLogDirsResult, ...] | ClientError]]:
    """The log directories of brokers (None: of all), with what each partition takes."""
    attempts = Attempts(cluster, timeout_ms)
    yield from refresh(cluster, (), attempts)
    wanted = sorted(cluster.brokers) if node_ids is None else list(node_ids)
    unknown = [node_id for node_id in wanted if node_id not in cluster.brokers]
    if unknown:
        known = ", ".join(map(str, sorted(cluster.brokers)))
        raise UnknownBroker(f"there is no broker {unknown[0]}; the brokers are {known}")
    request = DescribeLogDirsRequest(topics=None)
    timeout = attempts.request_timeout_ms
    replies = yield from exchange([Ask(cluster.brokers[n], request, timeout) for n in wanted])
    found: dict[int, tuple[DescribeLogDirsResult, ...] | ClientError] = {}
    for node_id, reply in zip(wanted, replies, strict=True):
        if isinstance(reply, DescribeLogDirsResponse):
            error = BrokerError(reply.error_code, about=f"broker {node_id}")
            found[node_id] = error if reply.error_code else reply.results
        else:
            assert isinstance(reply, ClientError)
            found[node_id] = reply
    return found


def unregister_broker(
    cluster: Cluster, broker_id: int, *, timeout_ms: int | None = None
) -> Steps[None]:
    """Forget a broker that is gone for good."""
    yield from ask_controller_whole(
        cluster,
        UnregisterBrokerRequest(broker_id=broker_id),
        UnregisterBrokerResponse,
        Attempts(cluster, timeout_ms),
        f"broker {broker_id}",
    )
