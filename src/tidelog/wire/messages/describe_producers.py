"""Shows the producers that are active in partitions."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64


class TopicRequest(Struct):
    name: str
    partition_indexes: tuple[int32, ...]


class DescribeProducersRequest(Message, key=61):
    topics: tuple[TopicRequest, ...]


class ProducerState(Struct):
    producer_id: int64
    producer_epoch: int32
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32
    current_txn_start_offset: int64 = -1


class PartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...]


class TopicResponse(Struct):
    name: str
    partitions: tuple[PartitionResponse, ...]


class DescribeProducersResponse(Message, key=61):
    throttle_time_ms: int32 = 0
    topics: tuple[TopicResponse, ...]
