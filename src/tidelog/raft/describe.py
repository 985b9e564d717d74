"""DescribeQuorum: who votes, who observes, and how far each has come."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.log_dir import METADATA_TOPIC
from tidelog.raft.progress import Replica
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Leader
from tidelog.raft.types import ReplicaKey
from tidelog.raft.validation import only_partition
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

UNKNOWN = -1


def describe_quorum(
    quorum: Quorum, request: DescribeQuorumRequest, now: Now
) -> DescribeQuorumResponse:
    """As the leader sees it; others say that they do not lead."""
    role = quorum.role
    if only_partition(request) is None:
        return _unknown(request)
    if not isinstance(role, Leader):
        return _response(
            DescribeQuorumResponsePartitionData(
                partition_index=0,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                error_message=None,
                leader_id=quorum.leader_id,
                leader_epoch=quorum.epoch,
                high_watermark=UNKNOWN,
                current_voters=(),
                observers=(),
            ),
            (),
        )
    voters = quorum.voters
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=UNKNOWN if role.high_watermark is None else role.high_watermark,
        current_voters=tuple(_voter(quorum, role, voter_id, now) for voter_id in voters.ids),
        observers=tuple(
            _state(replica.key, replica) for replica in role.replicas.observers(voters, now)
        ),
    )
    nodes = tuple(
        Node(
            node_id=voter.voter_id,
            listeners=tuple(
                Listener(name=one.name, host=one.host, port=one.port) for one in voter.endpoints
            ),
        )
        for voter in voters.voters.values()
    )
    return _response(partition, nodes)


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """There is one quorum, and this is about something else."""
    topics = tuple(
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                DescribeQuorumResponsePartitionData(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=None,
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=(),
                    observers=(),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=topics)


def _response(
    partition: DescribeQuorumResponsePartitionData, nodes: tuple[Node, ...]
) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE, error_message=None, topics=(topic,), nodes=nodes
    )


def _voter(quorum: Quorum, role: Leader, voter_id: int, now: Now) -> ReplicaState:
    key = quorum.voters.key(voter_id)
    if voter_id == quorum.key.id:
        return ReplicaState(
            replica_id=voter_id,
            replica_directory_id=key.directory_id,
            log_end_offset=quorum.log.log_end_offset,
            last_fetch_timestamp=now.wall_ms,
            last_caught_up_timestamp=now.wall_ms,
        )
    return _state(key, role.replicas.voter(quorum.voters, voter_id))


def _state(key: ReplicaKey, replica: Replica | None) -> ReplicaState:
    if replica is None:
        replica = Replica(key)
    return ReplicaState(
        replica_id=key.id,
        replica_directory_id=key.directory_id,
        log_end_offset=UNKNOWN if replica.end_offset is None else replica.end_offset,
        last_fetch_timestamp=replica.fetch_wall_ms,
        last_caught_up_timestamp=replica.caught_up_wall_ms,
    )
