"""Generates the decoding function of one (message, version): straight-line code, no copies.

The function takes a memoryview and a position and returns the message and the position behind
it. Consecutive fields of fixed width, with the length or count that follows them, are one
`Struct.unpack_from`. It is fed by strangers, so:

- a read beyond the end fails (unpack and indexing raise); a slice that ends beyond it is
  short, but the position then lies beyond the end, which is checked once, at the end;
- a count is compared with what the bytes left could hold before anything is built for it;
- what one message may hold is limited, because an object takes far more memory and time than
  the few bytes that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Packing
from struct import error as StructError
from typing import Any

from tidelog.wire.declare import Message, Struct
from tidelog.wire.schema import (
    Array,
    Blob,
    Field,
    FieldType,
    Fixed,
    Nested,
    Text,
    fields_of,
    is_flexible,
    size_min,
)
from tidelog.wire.source import ELEMENT_COST, SMALL_ARRAY_MAX, STRING_BYTES_MAX, Source

ELEMENTS_MAX = 2_000_000
"""Array elements and tags in one message: more than the Metadata of 250,000 partitions with
three replicas each."""
TAGS_MAX = 1000
"""Unknown tagged fields in one place."""


class DecodeError(ValueError):
    """The peer sent bytes that are not this message."""


class ManyElements(DecodeError):
    """Array elements and tags are more than there is room for."""


def build_decoder(
    cls: type[Message], version: int, *, in_slices: bool = False
) -> Callable[..., Any]:
    """With in_slices the function is a generator that stops after each element (slices.py)."""
    generator = _DecoderSource(version, is_flexible(cls, version), in_slices)
    return generator.build(cls)


class _DecoderSource(Source):
    def __init__(self, version: int, flexible: bool, in_slices: bool) -> None:
        super().__init__()
        self.version = version
        self.flexible = flexible
        self.in_slices = in_slices
        self.run: list[tuple[str, str]] = []
        """Formats and targets of the fixed fields that wait for one unpack."""
        self.constants |= {
            "DecodeError": DecodeError,
            "ManyElements": ManyElements,
            "failures": (IndexError, StructError, UnicodeDecodeError),
            "uvarint": uvarint,
            "skip_tags": skip_tags,
            "unpack_array": unpack_array,
            "new": object.__new__,
        }

    def build(self, cls: type[Message]) -> Callable[..., Any]:
        title = f"{cls.__name__} v{self.version}"
        with self.block(f"def decode(buf, pos, room={ELEMENTS_MAX}):"):
            self.line("end = len(buf)")
            if self.in_slices:
                self.line("yield 1")
            with self.block("try:"):
                self.struct(cls, "message", depth=0)
            with self.block("except failures as failure:"):
                self.line(f"raise DecodeError(f'{title}: {{failure}}') from None")
            with self.block("if pos > end:"):
                self.line(f"raise DecodeError('{title}: ends {{}} bytes early'.format(pos - end))")
            self.line("return message, pos")
        return self.compile("decode", f"decode {title}")

    def struct(self, cls: type[Struct], target: str, depth: int) -> None:
        """Decodes the fields into locals, then the object: attributes set without __init__."""
        local: dict[str, str] = {}
        tagged: list[Field] = []
        for field in fields_of(cls):
            if not field.is_in(self.version):
                local[field.name] = self.constant("default", field.default)
            elif field.is_tagged(self.version):
                tagged.append(field)
                local[field.name] = f"d{depth}_{field.name}"
            else:
                local[field.name] = f"d{depth}_{field.name}"
                self.field(field, local[field.name], depth)
        if self.flexible:
            self.tags(tagged, local, depth)
        self.flush()
        self.line(f"{target} = new({self.constant(cls.__name__, cls)})")
        for name, value in local.items():
            self.line(f"{target}.{name} = {value}")

    def field(self, field: Field, target: str, depth: int) -> None:
        compact = self.flexible and field.spec.compact
        nullable = field.is_nullable(self.version)
        match field.type:
            case Fixed(letter):
                self.run.append((letter, target))
            case Nested(cls):
                self.nested(cls, target, nullable, depth)
            case _:
                letter = "h" if isinstance(field.type, Text) else "i"
                with self.length(letter, compact, nullable, target, field.name):
                    self.sized(field.type, target, depth, field.name)

    @contextmanager
    def length(
        self, letter: str, compact: bool, nullable: bool, target: str, name: str
    ) -> Iterator[None]:
        """Reads a length or a count into the target, then what the block reads; None for null."""
        self.run.append(("B" if compact else letter, target))
        self.flush()
        if compact:
            with self.block(f"if {target} > 127:"):
                self.line(f"{target}, pos = uvarint(buf, pos, {target})")
                if letter == "h":
                    with self.block(f"if {target} > {STRING_BYTES_MAX + 1}:"):
                        self.line(f"raise DecodeError('{name} is too long for a string')")
            self.line(f"{target} -= 1")
        if not nullable:
            with self.block(f"if {target} < 0:"):
                self.line(f"raise DecodeError('{name} is null or has a negative length')")
            yield
            return
        with self.block(f"if {target} >= 0:"):
            yield
        with self.block(f"elif {target} == -1:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.line(f"raise DecodeError('{name} has a negative length')")

    def sized(self, field_type: FieldType, target: str, depth: int, name: str) -> None:
        """Takes as many bytes or elements as the target says, which becomes the value."""
        match field_type:
            case Array():
                self.array(field_type, target, depth, name)
                return
            case Text():
                value = "str(buf[pos:stop], 'utf-8')"
            case Blob(is_records=True):
                value = "buf[pos:stop]"
            case _:
                value = "bytes(buf[pos:stop])"
        self.line(f"stop = pos + {target}")
        self.line(f"{target} = {value}")
        self.line("pos = stop")

    def nested(self, cls: type[Struct], target: str, nullable: bool, depth: int) -> None:
        if not nullable:
            self.struct(cls, target, depth + 1)
            return
        marker = self.name("marker")
        self.run.append(("b", marker))
        self.flush()
        self.line(f"{target} = None")
        with self.block(f"if {marker} >= 0:"):
            self.struct(cls, target, depth + 1)

    def array(self, array: Array, target: str, depth: int, name: str) -> None:
        least = size_min(array.element, self.version, self.flexible)
        with self.block(f"if {target} * {least} > end - pos:"):
            self.line(f"raise DecodeError(f'{name}: {{{target}}} elements cannot be in the frame')")
        self.take(target)
        if isinstance(array.element, Fixed):
            self.line(f"{target}, pos = unpack_array(buf, pos, {target}, {array.element.format!r})")
            return
        items, item = self.name("items"), self.name("item")
        self.line(f"{items} = []")
        with self.block(f"for _ in range({target}):"):
            self.element(array.element, item, depth, name)
            self.line(f"{items}.append({item})")
            if self.in_slices:
                self.line(f"yield {ELEMENT_COST}")
        self.line(f"{target} = tuple({items})")

    def take(self, count: str) -> None:
        self.line(f"room -= {count}")
        with self.block("if room < 0:"):
            self.line("raise ManyElements('more elements and tags than are allowed')")

    def element(self, element: FieldType, item: str, depth: int, name: str) -> None:
        match element:
            case Nested(cls):
                self.struct(cls, item, depth + 1)
            case _:
                with self.length("h", self.flexible, False, item, name):
                    self.sized(element, item, depth, name)

    def tags(self, tagged: list[Field], local: dict[str, str], depth: int) -> None:
        """The tag section, most often empty: what is known into its field, the rest skipped."""
        self.flush()
        for field in tagged:
            self.line(f"{local[field.name]} = {self.constant('default', field.default)}")
        with self.block("if buf[pos]:"):
            if not tagged:
                self.line("pos, room = skip_tags(buf, pos, room)")
            else:
                self.known_tags(tagged, local, depth)
        with self.block("else:"):
            self.line("pos += 1")

    def known_tags(self, tagged: list[Field], local: dict[str, str], depth: int) -> None:
        tag, size, stop = self.name("tag"), self.name("size"), self.name("stop")
        count = self.name("count")
        self.line(f"{count}, pos = uvarint(buf, pos + 1, buf[pos])")
        self.take(count)
        with self.block(f"for _ in range({count}):"):
            self.line(f"{tag}, pos = uvarint(buf, pos + 1, buf[pos])")
            self.line(f"{size}, pos = uvarint(buf, pos + 1, buf[pos])")
            self.line(f"{stop} = pos + {size}")
            for index, field in enumerate(tagged):
                with self.block(f"{'el' if index else ''}if {tag} == {field.spec.tag}:"):
                    self.field(field, local[field.name], depth)
                    self.flush()
            with self.block("else:"):
                self.line(f"pos = {stop}")
            with self.block(f"if pos != {stop} or pos > end:"):
                self.line(f"raise DecodeError(f'tag {{{tag}}} is not {{{size}}} bytes long')")

    def flush(self) -> None:
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run.clear()
        if letters == "B":
            self.line(f"{targets} = buf[pos]")
            self.line("pos += 1")
            return
        packing = Packing(">" + letters)
        unpack = self.constant("unpack", packing.unpack_from)
        self.line(f"{targets}{',' * (',' not in targets)} = {unpack}(buf, pos)")
        self.line(f"pos += {packing.size}")


def uvarint(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes, the first of which was read already."""
    if first < 128:
        return first, pos
    byte = buf[pos]
    pos += 1
    if byte < 128:
        return first & 127 | byte << 7, pos
    value = first & 127 | (byte & 127) << 7
    for shift in (14, 21, 28):
        byte = buf[pos]
        pos += 1
        if byte < 128:
            return value | byte << shift, pos
        value |= (byte & 127) << shift
    raise DecodeError("a varint is longer than 5 bytes")


def skip_tags(buf: memoryview, pos: int, room: int = ELEMENTS_MAX) -> tuple[int, int]:
    """Passes over tagged fields that this version of the message does not know: the position
    behind them, and how many more elements may come."""
    count, pos = uvarint(buf, pos + 1, buf[pos])
    room -= count
    if room < 0 or count > TAGS_MAX:
        raise ManyElements("more elements and tags than are allowed")
    for _ in range(count):
        _, pos = uvarint(buf, pos + 1, buf[pos])
        size, pos = uvarint(buf, pos + 1, buf[pos])
        pos += size
    return pos, room


_small_arrays = {
    letter: [Packing(">" + letter * count) for count in range(SMALL_ARRAY_MAX + 1)]
    for letter in ("b", "h", "i", "q", "16s")
}


def unpack_array(buf: memoryview, pos: int, count: int, letter: str) -> tuple[tuple[Any, ...], int]:
    """An array of fixed-width values, whose count was checked against the bytes left."""
    if count <= SMALL_ARRAY_MAX:
        packing = _small_arrays[letter][count]
    elif letter == "16s":
        end = pos + 16 * count
        return tuple(bytes(buf[at : at + 16]) for at in range(pos, end, 16)), end
    else:
        packing = Packing(f">{count}{letter}")
    return packing.unpack_from(buf, pos), pos + packing.size
