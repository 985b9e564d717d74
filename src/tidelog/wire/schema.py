"""What a declared class means: its fields with their types, resolved once, on first use."""

from __future__ import annotations

import sys
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.declare import FieldSpec, Message, Records, Struct

STRUCT_SIZES = {"b": 1, "?": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "16s": 16}


class Fixed(NamedTuple):
    """A value of a fixed width: its letter in the `struct` module's formats."""

    format: str

    @property
    def size(self) -> int:
        return STRUCT_SIZES[self.format]


class Text(NamedTuple):
    """A string, in UTF-8."""


class Blob(NamedTuple):
    """Bytes; as records, a view of the frame instead of a copy."""

    is_records: bool


class Nested(NamedTuple):
    cls: type[Struct]


class Array(NamedTuple):
    element: Fixed | Text | Nested


FieldType = Fixed | Text | Blob | Nested | Array


class Field(NamedTuple):
    name: str
    type: FieldType
    may_be_none: bool
    spec: FieldSpec

    def is_in(self, version: int) -> bool:
        return self.spec.since <= version <= self.spec.until

    def is_tagged(self, version: int) -> bool:
        return self.spec.tag is not None and version >= self.spec.tagged_since

    def is_nullable(self, version: int) -> bool:
        return self.may_be_none and version >= self.spec.nullable

    @property
    def default(self) -> Any:
        """What the field reads as in a version that lacks it."""
        return zero(self) if self.spec.default is ... else self.spec.default


_fields: dict[type[Struct], tuple[Field, ...]] = {}


def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """The fields in the order of the wire."""
    if cls not in _fields:
        # The annotations are text until here, so that importing a module stays cheap.
        scope = vars(sys.modules[cls.__module__])
        _fields[cls] = tuple(
            _field(name, eval(cls.__annotations__[name], scope), spec)
            for name, spec in cls.FIELDS.items()
        )
    return _fields[cls]


def is_flexible(cls: type[Message], version: int) -> bool:
    return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM


def zero(field: Field) -> Any:
    """Kafka's default for a type that states none; a nested struct's is made of its fields'."""
    match field.type:
        case Fixed("16s"):
            return ZERO_UUID
        case Fixed("?"):
            return False
        case Fixed("d"):
            return 0.0
        case Fixed():
            return 0
        case Text():
            return ""
        case Blob():
            return b""
        case Array():
            return ()
        case Nested(cls):
            return cls(**{inner.name: inner.default for inner in fields_of(cls)})


def size_min(field_type: FieldType, version: int, flexible: bool) -> int:
    """The fewest bytes that a value can take: bounds what a claimed count may be."""
    match field_type:
        case Fixed():
            return field_type.size
        case Nested(cls):
            return int(flexible) + sum(
                size_min(field.type, version, flexible)
                for field in fields_of(cls)
                if field.is_in(version) and not field.is_tagged(version)
            )
        case Text():
            return 1 if flexible else 2
        case Blob() | Array():
            return 1 if flexible else 4


def _field(name: str, hint: Any, spec: FieldSpec) -> Field:
    if hint == Records:
        return Field(name, Blob(is_records=True), False, spec)
    may_be_none = False
    if get_origin(hint) in (Union, UnionType):
        arms = [arm for arm in get_args(hint) if arm is not NoneType]
        may_be_none = len(arms) < len(get_args(hint))
        if set(arms) == set(get_args(Records)):
            return Field(name, Blob(is_records=True), may_be_none, spec)
        (hint,) = arms
    if get_origin(hint) is tuple:
        return Field(name, Array(_element(get_args(hint)[0])), may_be_none, spec)
    if hint is bytes:
        return Field(name, Blob(is_records=False), may_be_none, spec)
    return Field(name, _element(hint), may_be_none, spec)


def _element(hint: Any) -> Fixed | Text | Nested:
    if get_origin(hint) is Annotated:
        return Fixed(hint.__metadata__[0])
    if hint is Uuid:
        return Fixed("16s")
    if hint is bool:
        return Fixed("?")
    if hint is str:
        return Text()
    assert issubclass(hint, Struct), f"{hint} is not a type of the wire"
    return Nested(hint)
