"""Sets and removes client quotas."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, float64, int16, int32


class EntityData(Struct):
    entity_type: str
    entity_name: str | None


class OpData(Struct):
    key: str
    value: float64
    remove: bool


class EntryData(Struct):
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


class AlterClientQuotasRequest(Message, key=49):
    entries: tuple[EntryData, ...]
    validate_only: bool


class AlterClientQuotasResponseEntityData(Struct):
    entity_type: str
    entity_name: str | None


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int16
    error_message: str | None
    entity: tuple[AlterClientQuotasResponseEntityData, ...]


class AlterClientQuotasResponse(Message, key=49):
    throttle_time_ms: int32 = 0
    entries: tuple[AlterClientQuotasResponseEntryData, ...]
