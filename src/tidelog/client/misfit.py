"""Which number of a request its field has no room for: packing many at once does not tell."""

from __future__ import annotations

import struct
from typing import Any

from tidelog.wire.declare import Struct
from tidelog.wire.schema import Array, FieldType, Fixed, Nested, fields_of


def misfit(message: Struct, version: int) -> str | None:
    """What to say of the first such number; None if every number fits."""
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if value is not None and field.is_in(version):
            said = _in_field(field.name, field.type, value, version)
            if said is not None:
                return said
    return None


def _in_field(name: str, field_type: FieldType, value: Any, version: int) -> str | None:
    match field_type:
        case Fixed(letter) if isinstance(value, int) and not _fits(letter, value):
            bits = 8 * struct.calcsize(f">{letter}")
            return f"{value} does not fit {name}, which has {bits} bits"
        case Nested():
            return misfit(value, version)
        case Array(element):
            found = (_in_field(name, element, one, version) for one in value)
            return next((said for said in found if said is not None), None)
    return None


def _fits(letter: str, value: int) -> bool:
    try:
        struct.pack(f">{letter}", value)
    except struct.error:
        return False
    return True
