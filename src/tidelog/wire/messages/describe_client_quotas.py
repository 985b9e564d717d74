"""Shows client quotas."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, float64, int8, int16, int32


class ComponentData(Struct):
    entity_type: str
    match_type: int8
    match: str | None


class DescribeClientQuotasRequest(Message, key=48):
    components: tuple[ComponentData, ...]
    strict: bool


class EntityData(Struct):
    entity_type: str
    entity_name: str | None


class ValueData(Struct):
    key: str
    value: float64


class EntryData(Struct):
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]


class DescribeClientQuotasResponse(Message, key=48):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None
    entries: tuple[EntryData, ...] | None
