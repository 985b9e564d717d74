"""Groups of the classic protocol."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int32, int64, since


class GroupMetadataKey(Message, versions=(0, 0)):
    group: str


class MemberMetadata(Struct):
    member_id: str
    group_instance_id: str | None = since(3, default=None, ignorable=True)
    client_id: str
    client_host: str
    rebalance_timeout: int32 = since(1, default=-1, ignorable=True)
    session_timeout: int32
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(Message, versions=(0, 4), flexible=4):
    protocol_type: str
    generation: int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: int64 = since(2, default=-1, ignorable=True)
    members: tuple[MemberMetadata, ...]
