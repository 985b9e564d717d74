"""Has the end of transactions written into partitions; sent by the coordinator."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, since


class WritableTxnMarkerTopic(Struct):
    name: str
    partition_indexes: tuple[int32, ...]


class WritableTxnMarker(Struct):
    producer_id: int64
    producer_epoch: int16
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int32
    transaction_version: int8 = since(2, default=0, ignorable=True)


class WriteTxnMarkersRequest(Message, key=27):
    markers: tuple[WritableTxnMarker, ...]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32
    error_code: int16


class WritableTxnMarkerTopicResult(Struct):
    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


class WritableTxnMarkerResult(Struct):
    producer_id: int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]


class WriteTxnMarkersResponse(Message, key=27):
    markers: tuple[WritableTxnMarkerResult, ...]
