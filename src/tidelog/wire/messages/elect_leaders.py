"""Elects leaders by hand: preferred ones or, at the price of data, unclean ones."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, since


class TopicPartitions(Struct):
    topic: str
    partitions: tuple[int32, ...]


class ElectLeadersRequest(Message, key=43):
    election_type: int8 = since(1, default=0)
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout_ms: int32 = 60000


class PartitionResult(Struct):
    partition_id: int32
    error_code: int16
    error_message: str | None


class ReplicaElectionResult(Struct):
    topic: str
    partition_result: tuple[PartitionResult, ...]


class ElectLeadersResponse(Message, key=43):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(1, default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...]
