"""Has leaders of partitions elected."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from tidelog.client.cluster import Cluster, TopicPartition
from tidelog.client.errors import BrokerError
from tidelog.client.routing import Attempts, ask_controller_whole, group_by_topic
from tidelog.client.steps import Steps
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)


class ElectionType(IntEnum):
    """Who may be elected: the first of the replicas if it is in sync, or any that lives."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    cluster: Cluster,
    election_type: ElectionType,
    partitions: Collection[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> Steps[dict[TopicPartition, BrokerError | None]]:
    """Of each partition, what went wrong. Without partitions of all, and the answer has those
    alone whose leader changed or should have."""
    attempts = Attempts(cluster, timeout_ms)
    wanted = None
    if partitions is not None:
        topics = group_by_topic(dict.fromkeys(partitions))
        wanted = tuple(
            TopicPartitions(topic=topic, partitions=tuple(index for index, _ in listed))
            for topic, listed in topics.items()
        )
    request = ElectLeadersRequest(
        election_type=election_type, topic_partitions=wanted, timeout_ms=attempts.left_ms
    )
    answer = yield from ask_controller_whole(
        cluster, request, ElectLeadersResponse, attempts, "leader election"
    )
    found: dict[TopicPartition, BrokerError | None] = {}
    for result in answer.replica_election_results:
        for one in result.partition_result:
            partition = TopicPartition(result.topic, one.partition_id)
            error = BrokerError(one.error_code, one.error_message, about=f"partition {partition}")
            found[partition] = error if one.error_code else None
    cluster.forget({partition.topic for partition in found})
    return found
