"""A new leader of the metadata quorum makes itself known."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, since, tagged, uint16


class PartitionData(Struct):
    partition_index: int32
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    leader_id: int32
    leader_epoch: int32


class TopicData(Struct):
    topic_name: str
    partitions: tuple[PartitionData, ...]


class LeaderEndpoint(Struct):
    name: str
    host: str
    port: uint16


class BeginQuorumEpochRequest(Message, key=53):
    cluster_id: str | None = None
    voter_id: int32 = since(1, default=-1, ignorable=True)
    topics: tuple[TopicData, ...]
    leader_endpoints: tuple[LeaderEndpoint, ...] = since(1, default=(), ignorable=True)


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: str
    partitions: tuple[BeginQuorumEpochResponsePartitionData, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: uint16


class BeginQuorumEpochResponse(Message, key=53):
    error_code: int16
    topics: tuple[BeginQuorumEpochResponseTopicData, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=1, default=())
