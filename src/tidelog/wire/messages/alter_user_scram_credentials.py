"""Sets and deletes users' SCRAM credentials."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32


class ScramCredentialDeletion(Struct):
    name: str
    mechanism: int8


class ScramCredentialUpsertion(Struct):
    name: str
    mechanism: int8
    iterations: int32
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest(Message, key=51):
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


class AlterUserScramCredentialsResult(Struct):
    user: str
    error_code: int16
    error_message: str | None


class AlterUserScramCredentialsResponse(Message, key=51):
    throttle_time_ms: int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...]
