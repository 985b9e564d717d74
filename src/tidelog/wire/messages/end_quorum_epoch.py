"""The leader of the metadata quorum resigns and names its preferred successors."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, since, tagged, uint16, until


class ReplicaInfo(Struct):
    candidate_id: int32
    candidate_directory_id: Uuid


class PartitionData(Struct):
    partition_index: int32
    leader_id: int32
    leader_epoch: int32
    preferred_successors: tuple[int32, ...] = until(0, default=(), ignorable=True)
    preferred_candidates: tuple[ReplicaInfo, ...] = since(1, default=(), ignorable=True)


class TopicData(Struct):
    topic_name: str
    partitions: tuple[PartitionData, ...]


class LeaderEndpoint(Struct):
    name: str
    host: str
    port: uint16


class EndQuorumEpochRequest(Message, key=54):
    cluster_id: str | None = None
    topics: tuple[TopicData, ...]
    leader_endpoints: tuple[LeaderEndpoint, ...] = since(1, default=(), ignorable=True)


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: str
    partitions: tuple[EndQuorumEpochResponsePartitionData, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: uint16


class EndQuorumEpochResponse(Message, key=54):
    error_code: int16
    topics: tuple[EndQuorumEpochResponseTopicData, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=1, default=())
