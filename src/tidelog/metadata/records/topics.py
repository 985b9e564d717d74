"""Records about topics and their partitions."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, int8, int32, since, tagged


class TopicRecord(Message, versions=(0, 0), flexible=0):
    name: str
    topic_id: Uuid


class RemoveTopicRecord(Message, versions=(0, 0), flexible=0):
    """The topic goes with its partitions and configs."""

    topic_id: Uuid


class PartitionRecord(Message, versions=(0, 2), flexible=0):
    partition_id: int32 = -1
    topic_id: Uuid
    replicas: tuple[int32, ...]
    isr: tuple[int32, ...]
    removing_replicas: tuple[int32, ...]
    adding_replicas: tuple[int32, ...]
    leader: int32 = -1
    leader_recovery_state: int8 = tagged(0, since=0, default=0)
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: tuple[Uuid, ...] = since(1, default=())
    eligible_leader_replicas: tuple[int32, ...] | None = tagged(1, since=2, default=None)
    last_known_elr: tuple[int32, ...] | None = tagged(2, since=2, default=None)


class PartitionChangeRecord(Message, versions=(0, 2), flexible=0):
    """What changed; the partition epoch rises by one, the leader epoch if `leader` is there."""

    partition_id: int32 = -1
    topic_id: Uuid
    isr: tuple[int32, ...] | None = tagged(0, since=0, default=None)
    leader: int32 = tagged(1, since=0, default=-2)
    """-1 nobody, -2 as before."""
    replicas: tuple[int32, ...] | None = tagged(2, since=0, default=None)
    removing_replicas: tuple[int32, ...] | None = tagged(3, since=0, default=None)
    adding_replicas: tuple[int32, ...] | None = tagged(4, since=0, default=None)
    leader_recovery_state: int8 = tagged(5, since=0, default=-1)
    directories: tuple[Uuid, ...] | None = tagged(8, since=1, default=None)
    eligible_leader_replicas: tuple[int32, ...] | None = tagged(6, since=2, default=None)
    last_known_elr: tuple[int32, ...] | None = tagged(7, since=2, default=None)


class ClearElrRecord(Message, versions=(0, 0), flexible=0):
    topic_name: str
    """Empty: of all topics."""
