"""Shows the state of transactions."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64


class DescribeTransactionsRequest(Message, key=65):
    transactional_ids: tuple[str, ...]


class TopicData(Struct):
    topic: str
    partitions: tuple[int32, ...]


class TransactionState(Struct):
    error_code: int16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int32
    transaction_start_time_ms: int64
    producer_id: int64
    producer_epoch: int16
    topics: tuple[TopicData, ...]


class DescribeTransactionsResponse(Message, key=65):
    throttle_time_ms: int32 = 0
    transaction_states: tuple[TransactionState, ...]
