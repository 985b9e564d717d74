"""Asks a voter of the metadata quorum for its vote, or since version 2 whether it would give it."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, tagged, uint16


class PartitionData(Struct):
    partition_index: int32
    replica_epoch: int32
    replica_id: int32
    replica_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    last_offset_epoch: int32
    last_offset: int64
    pre_vote: bool = since(2, default=False)


class TopicData(Struct):
    topic_name: str
    partitions: tuple[PartitionData, ...]


class VoteRequest(Message, key=52):
    cluster_id: str | None = None
    voter_id: int32 = since(1, default=-1, ignorable=True)
    topics: tuple[TopicData, ...]


class VoteResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    vote_granted: bool


class VoteResponseTopicData(Struct):
    topic_name: str
    partitions: tuple[VoteResponsePartitionData, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: uint16


class VoteResponse(Message, key=52):
    error_code: int16
    topics: tuple[VoteResponseTopicData, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=1, default=())
