"""Transactions, as `__transaction_state` keeps them."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, tagged


class TransactionLogKey(Message, versions=(0, 0)):
    transactional_id: str


class PartitionsSchema(Struct):
    topic: str
    partition_ids: tuple[int32, ...]


class TransactionLogValue(Message, versions=(0, 1), flexible=1):
    producer_id: int64
    previous_producer_id: int64 = tagged(0, since=1, default=-1)
    next_producer_id: int64 = tagged(1, since=1, default=-1)
    producer_epoch: int16
    next_producer_epoch: int16 = tagged(3, since=1, default=-1)
    transaction_timeout_ms: int32
    transaction_status: int8
    transaction_partitions: tuple[PartitionsSchema, ...] | None
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = tagged(2, since=1, default=0)
