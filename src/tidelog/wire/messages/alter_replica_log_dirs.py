"""Moves replicas between the log directories of a broker."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32


class AlterReplicaLogDirTopic(Struct):
    name: str
    partitions: tuple[int32, ...]


class AlterReplicaLogDir(Struct):
    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]


class AlterReplicaLogDirsRequest(Message, key=34):
    dirs: tuple[AlterReplicaLogDir, ...]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32
    error_code: int16


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


class AlterReplicaLogDirsResponse(Message, key=34):
    throttle_time_ms: int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...]
