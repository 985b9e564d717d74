"""Reads record batches: as a consumer, as a follower, as an observer of the metadata log.

Version 7 brings incremental sessions, 9 the fencing of stale leader epochs, 11 reading from
followers, 12 the detection of divergence, 13 names topics by id, 15 adds the follower's
broker epoch, 16 the new leader's endpoint, 17 directory ids, 18 the follower's high watermark.
"""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import (
    Message,
    Records,
    Struct,
    int8,
    int16,
    int32,
    int64,
    since,
    tagged,
    until,
)


class ReplicaState(Struct):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchPartition(Struct):
    partition: int32
    current_leader_epoch: int32 = since(9, default=-1, ignorable=True)
    fetch_offset: int64
    last_fetched_epoch: int32 = since(12, default=-1)
    log_start_offset: int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: int32
    replica_directory_id: Uuid = tagged(0, since=17, default=ZERO_UUID, ignorable=True)
    high_watermark: int64 = tagged(1, since=18, default=9223372036854775807, ignorable=True)


class FetchTopic(Struct):
    topic: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(Struct):
    topic: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[int32, ...]


class FetchRequest(Message, key=1):
    cluster_id: str | None = tagged(0, since=12, default=None, ignorable=True)
    replica_id: int32 = until(14, default=-1)
    replica_state: ReplicaState = tagged(1, since=15, default=ReplicaState())
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 2147483647
    isolation_level: int8 = 0
    session_id: int32 = since(7, default=0, ignorable=True)
    session_epoch: int32 = since(7, default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...] = since(7, default=())
    rack_id: str = since(11, default="", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class SnapshotId(Struct):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Struct):
    producer_id: int64
    first_offset: int64


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    high_watermark: int64
    last_stable_offset: int64 = -1
    log_start_offset: int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = tagged(0, since=12, default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = tagged(1, since=12, default=LeaderIdAndEpoch())
    snapshot_id: SnapshotId = tagged(2, since=12, default=SnapshotId())
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    preferred_read_replica: int32 = since(11, default=-1)
    records: Records | None


class FetchableTopicResponse(Struct):
    topic: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[PartitionData, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = None


class FetchResponse(Message, key=1):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(7, default=0, ignorable=True)
    session_id: int32 = since(7, default=0)
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=16, default=())
