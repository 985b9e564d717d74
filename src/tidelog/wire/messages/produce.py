"""Appends record batches to partitions.

Version 7 lets batches be compressed with zstd, 8 tells which records were refused, 10 names
the new leader where the old one moved, 12 adds partitions to a transaction by producing to
them, 13 names topics by id. Versions 0 to 2 are advertised, for librdkafka, but refused.
"""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Records, Struct, int16, int32, int64, since, tagged, until


class PartitionProduceData(Struct):
    index: int32
    records: Records | None


class TopicProduceData(Struct):
    name: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...]


class ProduceRequest(Message, key=0):
    transactional_id: str | None = None
    acks: int16
    timeout_ms: int32
    topic_data: tuple[TopicProduceData, ...]


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class PartitionProduceResponse(Struct):
    index: int32
    error_code: int16
    base_offset: int64
    log_append_time_ms: int64 = -1
    log_start_offset: int64 = since(5, default=-1, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = since(8, default=(), ignorable=True)
    error_message: str | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = tagged(0, since=10, default=LeaderIdAndEpoch())


class TopicProduceResponse(Struct):
    name: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = None


class ProduceResponse(Message, key=0):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time_ms: int32 = 0
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=10, default=())
