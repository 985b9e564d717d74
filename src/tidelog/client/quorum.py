"""The quorum of controllers: how far each has come, and who belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.client.cluster import Cluster
from tidelog.client.errors import BrokerError
from tidelog.client.routing import Attempts, ask_controller_whole, refresh
from tidelog.client.steps import Steps
from tidelog.errors import ErrorCode
from tidelog.types import Uuid
from tidelog.wire.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
)
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    PartitionData,
    ReplicaState,
    TopicData,
)
from tidelog.wire.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

METADATA_TOPIC = "__cluster_metadata"


class VoterEndpoint(NamedTuple):
    """Where a controller listens."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class QuorumReplica(NamedTuple):
    """A voter or an observer; times are of the leader's clock, -1 for never."""

    node_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class DescribedQuorum(NamedTuple):
    """The quorum as its leader sees it; endpoints of voters are told from Kafka 3.9 on."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[int, tuple[VoterEndpoint, ...]]


def describe_quorum(cluster: Cluster, *, timeout_ms: int | None = None) -> Steps[DescribedQuorum]:
    """Ask the active controller about the quorum that it leads."""
    attempts = Attempts(cluster, timeout_ms)
    asked = TopicData(topic_name=METADATA_TOPIC, partitions=(PartitionData(partition_index=0),))
    request = DescribeQuorumRequest(topics=(asked,))
    while True:
        answer = yield from ask_controller_whole(
            cluster, request, DescribeQuorumResponse, attempts, "the quorum"
        )
        partition = _only_partition(answer)
        if not partition.error_code:
            break
        error = BrokerError(partition.error_code, partition.error_message, about="the quorum")
        yield from attempts.again(error)
    if cluster.cluster_id is None:
        yield from refresh(cluster, (), attempts)
    endpoints = {
        node.node_id: tuple(VoterEndpoint(one.name, one.host, one.port) for one in node.listeners)
        for node in answer.nodes
    }
    return DescribedQuorum(
        cluster.cluster_id or "",
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        tuple(map(_replica, partition.current_voters)),
        tuple(map(_replica, partition.observers)),
        endpoints,
    )


def _only_partition(answer: DescribeQuorumResponse) -> DescribeQuorumResponsePartitionData:
    for topic in answer.topics:
        for partition in topic.partitions:
            return partition
    raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer is empty", about="the quorum")


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def add_raft_voter(
    cluster: Cluster,
    node_id: int,
    directory_id: Uuid,
    endpoints: Sequence[VoterEndpoint],
    *,
    cluster_id: str | None = None,
    timeout_ms: int | None = None,
) -> Steps[None]:
    """Make a controller that observes the quorum one that votes."""
    attempts = Attempts(cluster, timeout_ms)
    request = AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=attempts.left_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=tuple(Listener(name=one.name, host=one.host, port=one.port) for one in endpoints),
    )
    about = f"controller {node_id}"
    yield from ask_controller_whole(cluster, request, AddRaftVoterResponse, attempts, about)


def remove_raft_voter(
    cluster: Cluster, node_id: int, directory_id: Uuid, *, timeout_ms: int | None = None
) -> Steps[None]:
    """Take a controller out of those that vote."""
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
    )
    about = f"controller {node_id}"
    attempts = Attempts(cluster, timeout_ms)
    yield from ask_controller_whole(cluster, request, RemoveRaftVoterResponse, attempts, about)
