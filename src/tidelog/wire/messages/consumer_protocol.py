"""What the members of a classic consumer group tell each other through JoinGroup and SyncGroup."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int32, since


class TopicPartition(Struct):
    topic: str
    partitions: tuple[int32, ...]


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = since(1, default=(), ignorable=True)
    generation_id: int32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None
