"""A voter of the metadata quorum makes its endpoints and versions known to the leader."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, tagged, uint16


class Listener(Struct):
    name: str
    host: str
    port: uint16


class KRaftVersionFeature(Struct):
    min_supported_version: int16
    max_supported_version: int16


class UpdateRaftVoterRequest(Message, key=82):
    cluster_id: str | None
    current_leader_epoch: int32
    voter_id: int32
    voter_directory_id: Uuid
    listeners: tuple[Listener, ...]
    kraft_version_feature: KRaftVersionFeature


class CurrentLeader(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    host: str
    port: int32


class UpdateRaftVoterResponse(Message, key=82):
    throttle_time_ms: int32 = 0
    error_code: int16
    current_leader: CurrentLeader = tagged(0, since=0, default=CurrentLeader(host="", port=0))
