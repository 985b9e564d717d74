"""Acknowledges records that a share group's member acquired."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, since


class AcknowledgementBatch(Struct):
    first_offset: int64
    last_offset: int64
    acknowledge_types: tuple[int8, ...]


class AcknowledgePartition(Struct):
    partition_index: int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


class AcknowledgeTopic(Struct):
    topic_id: Uuid
    partitions: tuple[AcknowledgePartition, ...]


class ShareAcknowledgeRequest(Message, key=79):
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int32
    is_renew_ack: bool = since(2, default=False)
    topics: tuple[AcknowledgeTopic, ...]


class LeaderIdAndEpoch(Struct):
    leader_id: int32
    leader_epoch: int32


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = None


class ShareAcknowledgeResponse(Message, key=79):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: int32 = since(2, default=0, ignorable=True)
    responses: tuple[ShareAcknowledgeTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
