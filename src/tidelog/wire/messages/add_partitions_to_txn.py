"""Adds partitions to a transaction. From version 4 on brokers ask, in batches, to verify."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, until


class AddPartitionsToTxnTopic(Struct):
    name: str
    partitions: tuple[int32, ...]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...]


class AddPartitionsToTxnRequest(Message, key=24):
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = since(4, default=())
    v3_and_below_transactional_id: str = until(3, default="")
    v3_and_below_producer_id: int64 = until(3, default=0)
    v3_and_below_producer_epoch: int16 = until(3, default=0)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = until(3, default=())


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32
    partition_error_code: int16


class AddPartitionsToTxnTopicResult(Struct):
    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


class AddPartitionsToTxnResult(Struct):
    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


class AddPartitionsToTxnResponse(Message, key=24):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(4, default=0, ignorable=True)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = since(4, default=())
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = until(3, default=())
