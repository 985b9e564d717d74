"""Acquires records for a share group's member, and acknowledges earlier ones on the way."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Records, Struct, int8, int16, int32, int64, since


class AcknowledgementBatch(Struct):
    first_offset: int64
    last_offset: int64
    acknowledge_types: tuple[int8, ...]


class FetchPartition(Struct):
    partition_index: int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


class FetchTopic(Struct):
    topic_id: Uuid
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(Struct):
    topic_id: Uuid
    partitions: tuple[int32, ...]


class ShareFetchRequest(Message, key=78):
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int32
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 2147483647
    max_records: int32
    batch_size: int32
    share_acquire_mode: int8 = since(2, default=0, ignorable=True)
    is_renew_ack: bool = since(2, default=False)
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]


class LeaderIdAndEpoch(Struct):
    leader_id: int32
    leader_epoch: int32


class AcquiredRecords(Struct):
    first_offset: int64
    last_offset: int64
    delivery_count: int16


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: str | None = None
    acknowledge_error_code: int16
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: tuple[AcquiredRecords, ...]


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = None


class ShareFetchResponse(Message, key=78):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: int32
    responses: tuple[ShareFetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
