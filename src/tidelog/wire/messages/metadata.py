"""Tells a client of the brokers, the topics and who leads which partition.

In version 0 an empty list asks for all topics, since version 1 null does. Version 4 lets a
client refuse auto-creation, 10 adds topic ids, 12 asks by id, 13 can tell a client to start anew.
"""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, nullable, since


class MetadataRequestTopic(Struct):
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: str | None = nullable(10)


class MetadataRequest(Message, key=3):
    topics: tuple[MetadataRequestTopic, ...] | None = nullable(1)
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = since(8, default=False, until=10)
    include_topic_authorized_operations: bool = since(8, default=False)


class MetadataResponseBroker(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = since(1, default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = since(7, default=-1, ignorable=True)
    replica_nodes: tuple[int32, ...]
    isr_nodes: tuple[int32, ...]
    offline_replicas: tuple[int32, ...] = since(5, default=(), ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int16
    name: str | None = nullable(12)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    is_internal: bool = since(1, default=False, ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...]
    topic_authorized_operations: int32 = since(8, default=-2147483648)


class MetadataResponse(Message, key=3):
    throttle_time_ms: int32 = since(3, default=0, ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None = since(2, default=None, ignorable=True)
    controller_id: int32 = since(1, default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: int32 = since(8, default=-2147483648, until=10)
    error_code: int16 = since(13, default=0, ignorable=True)
