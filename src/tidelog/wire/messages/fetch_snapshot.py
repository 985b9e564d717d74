"""Fetches a piece of a snapshot of the metadata log."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Records, Struct, int16, int32, int64, tagged, uint16


class SnapshotId(Struct):
    end_offset: int64
    epoch: int32


class PartitionSnapshot(Struct):
    partition: int32
    current_leader_epoch: int32
    snapshot_id: SnapshotId
    position: int64
    replica_directory_id: Uuid = tagged(0, since=1, default=ZERO_UUID, ignorable=True)


class TopicSnapshot(Struct):
    name: str
    partitions: tuple[PartitionSnapshot, ...]


class FetchSnapshotRequest(Message, key=59):
    cluster_id: str | None = tagged(0, since=0, default=None)
    replica_id: int32 = -1
    max_bytes: int32 = 2147483647
    topics: tuple[TopicSnapshot, ...]


class FetchSnapshotResponseSnapshotId(Struct):
    end_offset: int64
    epoch: int32


class LeaderIdAndEpoch(Struct):
    leader_id: int32
    leader_epoch: int32


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int32
    error_code: int16
    snapshot_id: FetchSnapshotResponseSnapshotId
    current_leader: LeaderIdAndEpoch = tagged(
        0, since=0, default=LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
    )
    size: int64
    position: int64
    unaligned_records: Records


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: str
    partitions: tuple[FetchSnapshotResponsePartitionSnapshot, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: uint16


class FetchSnapshotResponse(Message, key=59):
    throttle_time_ms: int32 = 0
    error_code: int16
    topics: tuple[FetchSnapshotResponseTopicSnapshot, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=1, default=())
