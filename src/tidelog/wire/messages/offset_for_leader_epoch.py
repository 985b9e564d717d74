"""Tells where a leader epoch ends, so that a replica or consumer can find where it diverged."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class OffsetForLeaderPartition(Struct):
    partition: int32
    current_leader_epoch: int32 = -1
    leader_epoch: int32


class OffsetForLeaderTopic(Struct):
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


class OffsetForLeaderEpochRequest(Message, key=23):
    replica_id: int32 = since(3, default=-2, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...]


class EpochEndOffset(Struct):
    error_code: int16
    partition: int32
    leader_epoch: int32 = -1
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: str
    partitions: tuple[EpochEndOffset, ...]


class OffsetForLeaderEpochResponse(Message, key=23):
    throttle_time_ms: int32 = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]
