"""How a message is declared: a class, its fields, and the versions that each field lives in.

A field without an assignment is in every version. `since` and `tagged` say otherwise:

    class HeartbeatRequest(Message, key=12):
        group_id: str
        generation_id: int32
        member_id: str
        group_instance_id: str | None = since(3, default=None)

Nothing is compiled here: `codec` makes a decoder and an encoder for each (message, version)
on first use, from what `schema` reads off the class.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

from tidelog.wire.api import APIS, ApiKey

int8 = Annotated[int, "b"]
int16 = Annotated[int, "h"]
uint16 = Annotated[int, "H"]
int32 = Annotated[int, "i"]
int64 = Annotated[int, "q"]
float64 = Annotated[float, "d"]

Records = memoryview | bytes | bytearray
"""Record batches, opaque here: decoded as a view of the frame, never copied."""

T = TypeVar("T")

VERSION_MAX = 32767


class FieldSpec(NamedTuple):
    """What a declaration says of a field beyond its type."""

    since: int = 0
    until: int = VERSION_MAX
    default: Any = ...
    ignorable: bool = False
    """Whether a value may be dropped silently in a version that lacks the field."""
    nullable: int = 0
    """The first version in which None may be sent, for a field whose type admits it."""
    tag: int | None = None
    tagged_since: int = 0
    compact: bool = True
    """False: keeps the fixed-width length even in flexible versions (one header field does)."""


def since(
    version: int,
    *,
    default: T,
    until: int = VERSION_MAX,
    ignorable: bool = False,
    nullable: int = 0,
    compact: bool = True,
) -> T:
    """A field that is in [version, until] only; elsewhere it reads as its default."""
    spec: Any = FieldSpec(version, until, default, ignorable, nullable, compact=compact)
    return spec  # type: ignore[no-any-return]  # the field's value, to a type checker


def until(version: int, *, default: T, ignorable: bool = False, nullable: int = 0) -> T:
    """A field that versions up to this one have."""
    spec: Any = FieldSpec(0, version, default, ignorable, nullable)
    return spec  # type: ignore[no-any-return]  # the field's value, to a type checker


def tagged(
    tag: int,
    *,
    since: int,
    default: T,
    ignorable: bool = False,
    nullable: int = 0,
    field_since: int | None = None,
) -> T:
    """A field of the tag section: on the wire only where it differs from its default.

    `field_since` is for a field that older versions carry as an ordinary one.
    """
    spec: Any = FieldSpec(
        since if field_since is None else field_since,
        VERSION_MAX,
        default,
        ignorable,
        nullable,
        tag,
        since,
    )
    return spec  # type: ignore[no-any-return]  # the field's value, to a type checker


def nullable(version: int) -> Any:
    """A field of every version that may be None from this version on."""
    return FieldSpec(nullable=version)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(since, until, tagged, nullable)
)
class Declaration(type):
    """Makes slots of a class body's annotations: small objects, and no field by a slip of the pen.

    What concerns the class is in capitals: Kafka has fields called key, versions and name.
    """

    FIELDS: dict[str, FieldSpec]
    VALUES_OF: Callable[[Any], Any]
    """Of one field its value, of more a tuple."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Declaration:
        fields = {}
        for field in namespace.get("__annotations__", {}):
            if not field.isupper():
                value = namespace.pop(field, ...)
                fields[field] = value if isinstance(value, FieldSpec) else FieldSpec(default=value)
        namespace |= {"FIELDS": fields, "__slots__": tuple(fields)}
        namespace["VALUES_OF"] = attrgetter(*fields) if fields else lambda _: ()
        return super().__new__(mcs, name, bases, namespace, **options)


class Struct(metaclass=Declaration):
    """Plain data, compared by value. Frozen by convention, which the type checker enforces."""

    def __init__(self, **values: Any) -> None:
        # The first construction compiles the real __init__: most classes of a
        # module that is imported are never constructed.
        cls = type(self)
        init = _compile_init(cls)
        cls.__init__ = init  # type: ignore[method-assign]
        init(self, **values)

    def replace(self, **changes: Any) -> Self:
        """A copy with other values for some fields."""
        values = {name: getattr(self, name) for name in type(self).FIELDS}
        return type(self)(**(values | changes))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Struct)
        values_of = type(self).VALUES_OF
        return bool(values_of(self) == values_of(other))

    def __hash__(self) -> int:
        return hash(type(self).VALUES_OF(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A struct that stands alone: a request, a response, a header or a record's value."""

    API_KEY: ClassVar[ApiKey | None]
    VERSIONS: ClassVar[tuple[int, int]]
    """First and last version, both included."""
    FLEXIBLE_FROM: ClassVar[int | None]
    """First version with compact lengths and tag sections."""

    def __init_subclass__(
        cls,
        *,
        key: int | None = None,
        versions: tuple[int, int] | None = None,
        flexible: int | None = None,
    ) -> None:
        super().__init_subclass__()
        if key is not None:
            api = APIS[key]
            cls.API_KEY, cls.VERSIONS, cls.FLEXIBLE_FROM = api.key, api.versions, api.flexible_from
        else:
            assert versions is not None, f"{cls.__name__} has neither a key nor versions"
            cls.API_KEY, cls.VERSIONS, cls.FLEXIBLE_FROM = None, versions, flexible


def _compile_init(cls: type[Struct]) -> Callable[..., None]:
    required = [name for name, spec in cls.FIELDS.items() if spec.default is ...]
    optional = [name for name, spec in cls.FIELDS.items() if spec.default is not ...]
    parameters = ", ".join([*required, *(f"{name}=defaults[{name!r}]" for name in optional)])
    star = "*, " if parameters else ""
    body = "\n".join(f"    self.{name} = {name}" for name in cls.FIELDS) or "    pass"
    namespace: dict[str, Any] = {"defaults": {name: cls.FIELDS[name].default for name in optional}}
    exec(f"def __init__(self, {star}{parameters}):\n{body}", namespace)
    init: Callable[..., None] = namespace["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
