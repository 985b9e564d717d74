"""Generates the encoding function of one (message, version): straight-line code.

The function appends buffers to a list. Records are appended as they are, never copied, so that
a shell can send them from where they lie; everything else becomes few small `bytes`:
consecutive fields of fixed width, with the length or count that follows, are one `Struct.pack`.

A field that the version lacks is dropped if the declaration calls it ignorable. Otherwise a
value other than the default cannot be said in that version, and that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Packing
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
)
from tidelog.wire.source import ELEMENT_COST, SMALL_ARRAY_MAX, STRING_BYTES_MAX, Source


class EncodeError(ValueError):
    """We tried to say what this version of the message has no words for."""


def build_encoder(
    cls: type[Message], version: int, *, in_slices: bool = False
) -> Callable[[Message, list[Any]], Any]:
    """With in_slices the function is a generator that stops after each element (slices.py)."""
    return _EncoderSource(version, is_flexible(cls, version), in_slices).build(cls)


class _EncoderSource(Source):
    def __init__(self, version: int, flexible: bool, in_slices: bool) -> None:
        super().__init__()
        self.version = version
        self.flexible = flexible
        self.in_slices = in_slices
        self.run: list[tuple[str, str]] = []
        """Formats and values of the fixed fields that wait for one pack."""
        self.constants |= {
            "EncodeError": EncodeError,
            "pack_uvarint": pack_uvarint,
            "pack_tags": pack_tags,
            "small": SMALL_UVARINTS,
        }

    def build(self, cls: type[Message]) -> Callable[[Message, list[Any]], Any]:
        with self.block("def encode(message, parts):"):
            self.line("w = parts.append")
            if self.in_slices:
                self.line("yield 1")
            self.struct(cls, "message")
            self.flush()
        return self.compile("encode", f"encode {cls.__name__} v{self.version}")

    def struct(self, cls: type[Struct], source: str) -> None:
        tagged: list[Field] = []
        for field in fields_of(cls):
            value = f"{source}.{field.name}"
            if not field.is_in(self.version):
                self.absent(cls, field, value)
            elif field.is_tagged(self.version):
                tagged.append(field)
            else:
                self.field(field, value)
        if self.flexible:
            self.tags(tagged, source)

    def absent(self, cls: type[Struct], field: Field, value: str) -> None:
        if field.spec.ignorable:
            return
        default = self.constant("default", field.default)
        with self.block(f"if {value} is not {default} and {value} != {default}:"):
            said = f"{cls.__name__}.{field.name}"
            self.line(f"raise EncodeError('version {self.version} has no {said}')")

    def field(self, field: Field, value: str) -> None:
        compact = self.flexible and field.spec.compact
        match field.type:
            case Fixed(letter):
                self.run.append((letter, value))
                return
            case Nested(cls) if not field.is_nullable(self.version):
                local = self.name("struct")
                self.line(f"{local} = {value}")
                self.struct(cls, local)
                return
        local = self.name(field.name)
        self.line(f"{local} = {value}")
        if not field.is_nullable(self.version):
            self.sized(field.type, local, compact)
            return
        # Both arms must start from the same state, so nothing may wait for a pack.
        self.flush()
        with self.block(f"if {local} is None:"):
            null = _null(field.type, compact)
            self.line(f"w({null!r})")
        with self.block("else:"):
            if isinstance(field.type, Nested):
                self.run.append(("b", "1"))
                self.struct(field.type.cls, local)
            else:
                self.sized(field.type, local, compact)
            self.flush()

    def sized(self, field_type: FieldType, local: str, compact: bool) -> None:
        """A value with a length or a count before it."""
        match field_type:
            case Text():
                self.line(f"{local} = {local}.encode()")
                with self.block(f"if len({local}) > {STRING_BYTES_MAX}:"):
                    said = f"a string has at most {STRING_BYTES_MAX} bytes, not %d"
                    self.line(f"raise EncodeError({said!r} % len({local}))")
                self.length("h", f"len({local})", compact)
                self.line(f"w({local})")
            case Blob():
                self.length("i", f"len({local})", compact)
                self.line(f"w({local})")
            case Array(Fixed(letter)):
                self.flush()
                self.fixed_array(letter, local, compact)
            case Array(element):
                self.length("i", f"len({local})", compact)
                item = self.name("item")
                with self.block(f"for {item} in {local}:"):
                    if isinstance(element, Nested):
                        self.element(element.cls, item)
                    else:
                        self.sized(element, item, compact)
                    self.flush()
                    if self.in_slices:
                        self.line(f"yield {ELEMENT_COST}")

    def element(self, cls: type[Struct], item: str) -> None:
        """A struct of numbers and short arrays of numbers is one pack: there are many of them
        in a Metadata response."""
        arrays = self.packable(cls)
        if not arrays:
            self.struct(cls, item)
            return
        packs = ArrayPacks(
            "".join(
                "{}" if isinstance(field.type, Array) else field.type.format
                for field in fields_of(cls)
                if field.is_in(self.version) and isinstance(field.type, Array | Fixed)
            )
            + "x" * self.flexible,
            list(arrays.values()),
            self.flexible,
        )
        counts, values = [], []
        for field in fields_of(cls):
            value = f"{item}.{field.name}"
            if not field.is_in(self.version):
                self.absent(cls, field, value)
            elif field.name in arrays:
                array, count = self.name("array"), self.name("count")
                self.line(f"{array} = {value}")
                self.line(f"{count} = len({array})")
                counts.append(count)
                values += [f"{count} + {int(self.flexible)}", f"*{array}"]
            else:
                values.append(value)
        pack = self.name("pack")
        self.line(f"{pack} = {self.constant('packs', packs)}[{', '.join(counts)},]")
        with self.block(f"if {pack} is not None:"):
            self.line(f"w({pack}({', '.join(values)}))")
        with self.block("else:"):
            self.struct(cls, item)
            self.flush()

    def packable(self, cls: type[Struct]) -> dict[str, str]:
        """The letters of its arrays by their names, if it holds but numbers and such arrays."""
        arrays = {}
        for field in fields_of(cls):
            if not field.is_in(self.version):
                continue
            if field.is_tagged(self.version) or field.is_nullable(self.version):
                return {}
            match field.type:
                case Fixed():
                    pass
                case Array(Fixed(letter)):
                    arrays[field.name] = letter
                case _:
                    return {}
        return arrays

    def fixed_array(self, letter: str, local: str, compact: bool) -> None:
        """Count and values in one pack, prepared for the counts that replicas come in."""
        small = self.constant("pack_small", _small_array_packers(letter, compact))
        large = self.constant("pack_large", pack_large_array)
        size = self.name("size")
        self.line(f"{size} = len({local})")
        count = f"{size} + 1" if compact else size
        with self.block(f"if {size} <= {SMALL_ARRAY_MAX}:"):
            self.line(f"w({small}[{size}]({count}, *{local}))")
        with self.block("else:"):
            self.line(f"w({large}({local}, {letter!r}, {compact}))")

    def length(self, letter: str, value: str, compact: bool) -> None:
        """Ends the run with a length, which as a varint most often is one byte."""
        if not compact:
            self.run.append((letter, value))
            self.flush()
            return
        size = self.name("size")
        self.line(f"{size} = {value} + 1")
        if not self.run:
            self.line(f"w(small[{size}] if {size} < 128 else pack_uvarint({size}))")
            return
        run = list(self.run)
        with self.block(f"if {size} < 128:"):
            self.run.append(("B", size))
            self.flush()
        with self.block("else:"):
            self.run = run
            self.flush()
            self.line(f"w(pack_uvarint({size}))")

    def tags(self, tagged: list[Field], source: str) -> None:
        if not tagged:
            self.run.append(("x", ""))
            return
        self.flush()
        values = [self.name(field.name) for field in tagged]
        are_default = []
        for field, value in zip(tagged, values, strict=True):
            self.line(f"{value} = {source}.{field.name}")
            default = self.constant("default", field.default)
            is_default = self.name("is_default")
            self.line(f"{is_default} = {value} is {default} or {value} == {default}")
            are_default.append(is_default)
        with self.block(f"if {' and '.join(are_default)}:"):
            self.line("w(b'\\0')")
        with self.block("else:"):
            payloads = self.name("payloads")
            self.line(f"{payloads} = {{}}")
            for field, value, is_default in zip(tagged, values, are_default, strict=True):
                with self.block(f"if not {is_default}:"):
                    self.tag(field, value, payloads)
            self.line(f"pack_tags({payloads}, w)")

    def tag(self, field: Field, value: str, payloads: str) -> None:
        """One tagged field, encoded apart because its size comes before it."""
        payload, outer = self.name("payload"), self.name("w")
        self.line(f"{outer}, {payload} = w, []")
        self.line(f"w = {payload}.append")
        self.field(field, value)
        self.flush()
        self.line(f"w = {outer}")
        self.line(f"{payloads}[{field.spec.tag}] = b''.join({payload})")

    def flush(self) -> None:
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        values = ", ".join(value for letter, value in self.run if letter != "x")
        self.run = []
        if not values:
            self.line(f"w({bytes(len(letters))!r})")
            return
        pack = self.constant("pack", Packing(">" + letters).pack)
        self.line(f"w({pack}({values}))")


def _null(field_type: FieldType, compact: bool) -> bytes:
    match field_type:
        case Nested():
            return b"\xff"
        case _ if compact:
            return b"\x00"
        case Text():
            return b"\xff\xff"
        case _:
            return b"\xff\xff\xff\xff"


def pack_uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_UVARINTS = [bytes([value]) for value in range(128)]


def pack_tags(payloads: dict[int, bytes], write: Callable[[bytes], None]) -> None:
    """The tag section: how many, then each with its number and size, numbers rising."""
    write(pack_uvarint(len(payloads)))
    for tag in sorted(payloads):
        write(pack_uvarint(tag) + pack_uvarint(len(payloads[tag])))
        write(payloads[tag])


_small_packers: dict[tuple[str, bool], list[Callable[..., bytes]]] = {}


def _small_array_packers(letter: str, compact: bool) -> list[Callable[..., bytes]]:
    """For each count up to SMALL_ARRAY_MAX a function that packs the count and the values."""
    if (letter, compact) not in _small_packers:
        prefix = ">B" if compact else ">i"
        _small_packers[letter, compact] = [
            Packing(prefix + letter * count).pack for count in range(SMALL_ARRAY_MAX + 1)
        ]
    return _small_packers[letter, compact]


class ArrayPacks(dict[tuple[int, ...], Callable[..., bytes] | None]):
    """Packing functions of a struct by the lengths of its arrays, made when first needed.

    At most SMALL_ARRAY_MAX + 1 lengths for each array are kept; longer ones have none.
    """

    def __init__(self, template: str, letters: list[str], compact: bool) -> None:
        super().__init__()
        self._template = template
        self._letters = letters
        self._prefix = "B" if compact else "i"

    def __missing__(self, counts: tuple[int, ...]) -> Callable[..., bytes] | None:
        if max(counts) > SMALL_ARRAY_MAX:
            return None
        arrays = (
            self._prefix + letter * count
            for letter, count in zip(self._letters, counts, strict=True)
        )
        pack = self[counts] = Packing(">" + self._template.format(*arrays)).pack
        return pack


def pack_large_array(values: Sequence[Any], letter: str, compact: bool) -> bytes:
    count = len(values)
    head = pack_uvarint(count + 1) if compact else Packing(">i").pack(count)
    if letter == "16s":
        return head + b"".join(values)
    return head + Packing(f">{count}{letter}").pack(*values)
