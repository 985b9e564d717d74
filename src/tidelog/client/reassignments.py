"""Moves partitions to other brokers, and tells which are on their way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidelog.client.cluster import Cluster, TopicPartition
from tidelog.client.errors import BrokerError
from tidelog.client.routing import Attempts, ask_controller_whole, group_by_topic
from tidelog.client.steps import Steps
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

Replicas = tuple[int, ...]


class Reassignment(NamedTuple):
    """A partition on its way: all its replicas, those that come and those that go."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """The replicas when it is done."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def alter_partition_reassignments(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, Replicas | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: int | None = None,
) -> Steps[dict[TopicPartition, BrokerError | None]]:
    """Begin to move partitions to these replicas, the first of which is preferred; None takes a
    move back. Of each partition, what went wrong."""
    attempts = Attempts(cluster, timeout_ms)
    topics = tuple(
        ReassignableTopic(
            name=topic,
            partitions=tuple(
                ReassignablePartition(partition_index=index, replicas=replicas)
                for index, replicas in listed
            ),
        )
        for topic, listed in group_by_topic(wanted).items()
    )
    answer = yield from ask_controller_whole(
        cluster,
        AlterPartitionReassignmentsRequest(
            topics=topics,
            timeout_ms=attempts.left_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        ),
        AlterPartitionReassignmentsResponse,
        attempts,
        "reassignment",
    )
    found: dict[TopicPartition, BrokerError | None] = {}
    for result in answer.responses:
        for one in result.partitions:
            partition = TopicPartition(result.name, one.partition_index)
            error = BrokerError(one.error_code, one.error_message, about=f"partition {partition}")
            found[partition] = error if one.error_code else None
    return found


def list_partition_reassignments(
    cluster: Cluster,
    partitions: Collection[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> Steps[dict[TopicPartition, Reassignment]]:
    """Those of these partitions (None: of all) that are on their way."""
    attempts = Attempts(cluster, timeout_ms)
    wanted = None
    if partitions is not None:
        wanted = tuple(
            ListPartitionReassignmentsTopics(
                name=topic, partition_indexes=tuple(index for index, _ in listed)
            )
            for topic, listed in group_by_topic(dict.fromkeys(partitions)).items()
        )
    answer = yield from ask_controller_whole(
        cluster,
        ListPartitionReassignmentsRequest(topics=wanted, timeout_ms=attempts.left_ms),
        ListPartitionReassignmentsResponse,
        attempts,
        "reassignments",
    )
    return {
        TopicPartition(topic.name, one.partition_index): Reassignment(
            one.replicas, one.adding_replicas, one.removing_replicas
        )
        for topic in sorted(answer.topics, key=lambda topic: topic.name)
        for one in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    }
