"""What is checked of every request and answer of the quorum before anything else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.log_dir import METADATA_TOPIC
from tidelog.raft.roles import Leader
from tidelog.raft.types import LAST_EPOCH, NOBODY, Address, ReplicaKey
from tidelog.types import METADATA_TOPIC_ID, ZERO_UUID, Uuid

if TYPE_CHECKING:
    from tidelog.raft.quorum import Quorum


def cluster_error(asked: str | None, own: str) -> ErrorCode:
    """A request need not say for which cluster it is."""
    return ErrorCode.NONE if asked in (None, own) else ErrorCode.INCONSISTENT_CLUSTER_ID


def only_partition(message: Any) -> Any:
    """What a request or an answer says of `__cluster_metadata-0`; None if it speaks of anything
    else, or of more. The APIs call the same things by different names."""
    topics: Any = getattr(message, "topics", None) or getattr(message, "responses", ())
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    for field in ("topic_name", "name"):
        if getattr(topic, field, METADATA_TOPIC) != METADATA_TOPIC:
            return None
    if getattr(topic, "topic_id", METADATA_TOPIC_ID) != METADATA_TOPIC_ID:
        return None
    for field in ("partition_index", "partition", "index"):
        if getattr(partition, field, 0) != 0:
            return None
    return partition


def opened(quorum: Quorum, request: Any) -> tuple[ErrorCode, Any]:
    """What a request says of the partition, or why it is refused as a whole."""
    error = cluster_error(request.cluster_id, quorum.cluster_id)
    partition = only_partition(request)
    if error is ErrorCode.NONE and partition is None:
        error = ErrorCode.INVALID_REQUEST
    return error, partition


def endpoint_in(endpoints: Iterable[Any], leader_id: int) -> Address | None:
    """Where an answer says that the leader is."""
    for endpoint in endpoints:
        if endpoint.node_id == leader_id != NOBODY:
            return Address(endpoint.host, endpoint.port)
    return None


def heed(quorum: Quorum, response: Any, now: Now) -> Any:
    """Learn from an answer who leads; what it says of the partition, if that counts."""
    partition = only_partition(response)
    if partition is None or getattr(response, "error_code", 0) != ErrorCode.NONE:
        return None
    leader = getattr(partition, "current_leader", partition)
    address = endpoint_in(response.node_endpoints, leader.leader_id)
    told = leader.leader_id, leader.leader_epoch, address
    return partition if quorum.observe(partition.error_code, *told, now) else None


def is_addressed(own: ReplicaKey, voter_id: int, directory_id: Uuid) -> bool:
    """Whether a request is for this node, as far as it says for whom."""
    return voter_id in (NOBODY, own.id) and directory_id in (ZERO_UUID, own.directory_id)


def voter_only_error(quorum: Quorum, remote_id: int, epoch: int) -> ErrorCode:
    """For requests between voters."""
    if epoch < quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    is_sound = remote_id >= 0 and epoch < LAST_EPOCH
    return ErrorCode.NONE if is_sound else ErrorCode.INVALID_REQUEST


def leader_only_error(quorum: Quorum, epoch: int) -> ErrorCode:
    """For requests that only the leader of this epoch can serve."""
    if epoch < quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > quorum.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    is_leader = isinstance(quorum.role, Leader)
    return ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
