"""Creates a delegation token."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class CreatableRenewers(Struct):
    principal_type: str
    principal_name: str


class CreateDelegationTokenRequest(Message, key=38):
    owner_principal_type: str | None = since(3, default="")
    owner_principal_name: str | None = since(3, default="")
    renewers: tuple[CreatableRenewers, ...]
    max_lifetime_ms: int64


class CreateDelegationTokenResponse(Message, key=38):
    error_code: int16
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = since(3, default="")
    token_requester_principal_name: str = since(3, default="")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: str
    hmac: bytes
    throttle_time_ms: int32 = 0
