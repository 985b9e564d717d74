"""Shows the metadata quorum: leader, voters, observers and how far each has come."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, uint16


class PartitionData(Struct):
    partition_index: int32


class TopicData(Struct):
    topic_name: str
    partitions: tuple[PartitionData, ...]


class DescribeQuorumRequest(Message, key=55):
    topics: tuple[TopicData, ...]


class ReplicaState(Struct):
    replica_id: int32
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: int64
    last_fetch_timestamp: int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = since(1, default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: str | None = since(2, default="", ignorable=True)
    leader_id: int32
    leader_epoch: int32
    high_watermark: int64
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str
    partitions: tuple[DescribeQuorumResponsePartitionData, ...]


class Listener(Struct):
    name: str
    host: str
    port: uint16


class Node(Struct):
    node_id: int32
    listeners: tuple[Listener, ...]


class DescribeQuorumResponse(Message, key=55):
    error_code: int16
    error_message: str | None = since(2, default="", ignorable=True)
    topics: tuple[DescribeQuorumResponseTopicData, ...]
    nodes: tuple[Node, ...] = since(2, default=())
