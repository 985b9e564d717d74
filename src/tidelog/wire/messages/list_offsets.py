"""Finds offsets by timestamp, or by one of the special timestamps (latest, earliest, ...).

Version 7 adds the offset of the greatest timestamp, 8 to 11 what concerns tiered storage.
"""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, since


class ListOffsetsPartition(Struct):
    partition_index: int32
    current_leader_epoch: int32 = since(4, default=-1, ignorable=True)
    timestamp: int64


class ListOffsetsTopic(Struct):
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsetsRequest(Message, key=2):
    replica_id: int32
    isolation_level: int8 = since(2, default=0)
    topics: tuple[ListOffsetsTopic, ...]
    timeout_ms: int32 = since(10, default=0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = since(4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


class ListOffsetsResponse(Message, key=2):
    throttle_time_ms: int32 = since(2, default=0, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...]
