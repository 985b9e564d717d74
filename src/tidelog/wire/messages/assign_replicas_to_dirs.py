"""A broker tells the controller which log directory holds which replica."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64


class PartitionData(Struct):
    partition_index: int32


class TopicData(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class DirectoryData(Struct):
    id: Uuid
    topics: tuple[TopicData, ...]


class AssignReplicasToDirsRequest(Message, key=73):
    broker_id: int32
    broker_epoch: int64 = -1
    directories: tuple[DirectoryData, ...]


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: Uuid
    partitions: tuple[AssignReplicasToDirsResponsePartitionData, ...]


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: Uuid
    topics: tuple[AssignReplicasToDirsResponseTopicData, ...]


class AssignReplicasToDirsResponse(Message, key=73):
    throttle_time_ms: int32 = 0
    error_code: int16
    directories: tuple[AssignReplicasToDirsResponseDirectoryData, ...]
