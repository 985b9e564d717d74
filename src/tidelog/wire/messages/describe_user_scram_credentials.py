"""Shows which SCRAM credentials users have, never the credentials."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32


class UserName(Struct):
    name: str


class DescribeUserScramCredentialsRequest(Message, key=50):
    users: tuple[UserName, ...] | None


class CredentialInfo(Struct):
    mechanism: int8
    iterations: int32


class DescribeUserScramCredentialsResult(Struct):
    user: str
    error_code: int16
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]


class DescribeUserScramCredentialsResponse(Message, key=50):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]
