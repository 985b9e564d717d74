"""Shows delegation tokens."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class DescribeDelegationTokenOwner(Struct):
    principal_type: str
    principal_name: str


class DescribeDelegationTokenRequest(Message, key=41):
    owners: tuple[DescribeDelegationTokenOwner, ...] | None


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str
    principal_name: str


class DescribedDelegationToken(Struct):
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = since(3, default="")
    token_requester_principal_name: str = since(3, default="")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: str
    hmac: bytes
    renewers: tuple[DescribedDelegationTokenRenewer, ...]


class DescribeDelegationTokenResponse(Message, key=41):
    error_code: int16
    tokens: tuple[DescribedDelegationToken, ...]
    throttle_time_ms: int32 = 0
