"""Lists the groups that a broker coordinates, filtered by state and type."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, since


class ListGroupsRequest(Message, key=16):
    states_filter: tuple[str, ...] = since(4, default=())
    types_filter: tuple[str, ...] = since(5, default=())


class ListedGroup(Struct):
    group_id: str
    protocol_type: str
    group_state: str = since(4, default="", ignorable=True)
    group_type: str = since(5, default="", ignorable=True)


class ListGroupsResponse(Message, key=16):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16
    groups: tuple[ListedGroup, ...]
