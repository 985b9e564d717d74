"""Keys and values of control records: transaction markers, and what the metadata quorum logs.

A control record's key is a version (int16) and a ControlRecordTypeSchema. The values of
the quorum's records open with their version as a field of its own.
"""

from __future__ import annotations

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import Message, Struct, int16, int32, int64, since, uint16


class ControlRecordTypeSchema(Message, versions=(0, 0)):
    type: int16


class EndTxnMarker(Message, versions=(0, 0)):
    coordinator_epoch: int32


class LeaderChangeVoter(Struct):
    voter_id: int32
    voter_directory_id: Uuid = since(1, default=ZERO_UUID)


class LeaderChangeMessage(Message, versions=(0, 1), flexible=0):
    version: int16
    leader_id: int32
    voters: tuple[LeaderChangeVoter, ...]
    granting_voters: tuple[LeaderChangeVoter, ...]


class SnapshotHeaderRecord(Message, versions=(0, 0), flexible=0):
    version: int16
    last_contained_log_timestamp: int64


class SnapshotFooterRecord(Message, versions=(0, 0), flexible=0):
    version: int16


class KRaftVersionRecord(Message, versions=(0, 0), flexible=0):
    version: int16
    kraft_version: int16


class Endpoint(Struct):
    name: str
    host: str
    port: uint16


class KRaftVersionFeature(Struct):
    min_supported_version: int16
    max_supported_version: int16


class Voter(Struct):
    voter_id: int32
    voter_directory_id: Uuid
    endpoints: tuple[Endpoint, ...]
    kraft_version_feature: KRaftVersionFeature


class VotersRecord(Message, versions=(0, 0), flexible=0):
    version: int16
    voters: tuple[Voter, ...]
