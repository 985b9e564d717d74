"""Records about who may do what, and how much: ACLs, credentials, tokens, quotas."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, Struct, float64, int8, int32, int64


class AccessControlEntryRecord(Message, versions=(0, 0), flexible=0):
    id: Uuid
    resource_type: int8
    resource_name: str
    pattern_type: int8
    principal: str
    host: str
    operation: int8
    permission_type: int8


class RemoveAccessControlEntryRecord(Message, versions=(0, 0), flexible=0):
    id: Uuid


class UserScramCredentialRecord(Message, versions=(0, 0), flexible=0):
    name: str
    mechanism: int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int32


class RemoveUserScramCredentialRecord(Message, versions=(0, 0), flexible=0):
    name: str
    mechanism: int8


class DelegationTokenRecord(Message, versions=(0, 0), flexible=0):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: str


class RemoveDelegationTokenRecord(Message, versions=(0, 0), flexible=0):
    token_id: str


class EntityData(Struct):
    entity_type: str
    entity_name: str | None
    """None: the default of the type."""


class ClientQuotaRecord(Message, versions=(0, 0), flexible=0):
    entity: tuple[EntityData, ...]
    key: str
    value: float64
    remove: bool
