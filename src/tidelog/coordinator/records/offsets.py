"""Committed offsets, as `__consumer_offsets` keeps them. The legacy key is that of version 0."""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, int32, int64, since, tagged


class LegacyOffsetCommitKey(Message, versions=(0, 0)):
    group: str
    topic: str
    partition: int32


class LegacyOffsetCommitValue(Message, versions=(0, 0)):
    offset: int64
    metadata: str
    commit_timestamp: int64


class OffsetCommitKey(Message, versions=(0, 0)):
    group: str
    topic: str
    partition: int32


class OffsetCommitValue(Message, versions=(0, 4), flexible=4):
    offset: int64
    leader_epoch: int32 = since(3, default=-1, ignorable=True)
    metadata: str
    commit_timestamp: int64
    expire_timestamp: int64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = tagged(0, since=4, default=ZERO_UUID, ignorable=True)
