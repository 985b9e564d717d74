"""A leader asks the controller to change its partition's ISR."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int8, int16, int32, int64, since, until


class BrokerState(Struct):
    broker_id: int32
    broker_epoch: int64 = -1


class PartitionData(Struct):
    partition_index: int32
    leader_epoch: int32
    new_isr: tuple[int32, ...] = until(2, default=())
    new_isr_with_epochs: tuple[BrokerState, ...] = since(3, default=())
    leader_recovery_state: int8 = 0
    partition_epoch: int32


class TopicData(Struct):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


class AlterPartitionRequest(Message, key=56):
    broker_id: int32
    broker_epoch: int64 = -1
    topics: tuple[TopicData, ...]


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    isr: tuple[int32, ...]
    leader_recovery_state: int8 = 0
    partition_epoch: int32


class AlterPartitionResponseTopicData(Struct):
    topic_id: Uuid
    partitions: tuple[AlterPartitionResponsePartitionData, ...]


class AlterPartitionResponse(Message, key=56):
    throttle_time_ms: int32 = 0
    error_code: int16
    topics: tuple[AlterPartitionResponseTopicData, ...]
