"""Message definitions, ours and those in the jars of Apache Kafka, brought into one form."""

from __future__ import annotations

import json
import re
import zipfile
from typing import Any

from tests.interop.jars import kafka_jar
from tidelog.wire.declare import Message, Struct
from tidelog.wire.schema import Array, Blob, Field, FieldType, Fixed, Nested, Text, fields_of

Range = tuple[int, int]
FOREVER = 32767
LETTERS = {
    "b": "int8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "q": "int64",
    "d": "float64",
    "?": "bool",
    "16s": "uuid",
}


def theirs(jar_name: str, folder: str) -> dict[str, dict[str, Any]]:
    """The definitions in a folder of a jar, by name."""
    found = {}
    with zipfile.ZipFile(kafka_jar(jar_name)) as jar:
        for name in jar.namelist():
            if re.fullmatch(rf"{folder}/\w+\.json", name):
                text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                if definition["validVersions"] != "none":
                    found[definition["name"]] = definition
    return found


def parse_range(text: str) -> Range | None:
    if text == "none":
        return None
    first, dash, last = text.rstrip("+").partition("-")
    return int(first), FOREVER if text.endswith("+") else int(last if dash else first)


def clip(inner: Range | None, outer: Range) -> Range | None:
    """The versions of both; None if there is none."""
    if inner is None or max(inner[0], outer[0]) > min(inner[1], outer[1]):
        return None
    return max(inner[0], outer[0]), min(inner[1], outer[1])


# Both sides are brought into one form: a list of fields, each a dict of its facts.


def our_fields(cls: type[Struct], outer: Range) -> list[dict[str, Any]]:
    shown = []
    for field in fields_of(cls):
        versions = clip((field.spec.since, field.spec.until), outer)
        if versions is None:
            continue
        tagged = (field.spec.tagged_since, FOREVER) if field.spec.tag is not None else None
        nullable = (field.spec.nullable, FOREVER) if field.may_be_none else None
        shown.append(
            {
                "name": field.name.replace("_", ""),
                "type": our_type(field.type, versions),
                "versions": versions,
                "nullable": clip(nullable, versions),
                "default": our_default(field),
                "tag": field.spec.tag,
                "tagged": clip(tagged, versions),
                "ignorable": field.spec.ignorable if versions != outer else None,
                "compact": field.spec.compact,
            }
        )
    return shown


def our_type(field_type: FieldType, versions: Range) -> Any:
    match field_type:
        case Fixed(letter):
            return LETTERS[letter]
        case Text():
            return "string"
        case Blob(is_records):
            return "records" if is_records else "bytes"
        case Array(element):
            return ["array of", our_type(element, versions)]
        case Nested(cls):
            return our_fields(cls, versions)


def our_default(field: Field) -> Any:
    """A nested default is compared through the defaults of its fields."""
    if isinstance(field.type, Nested) and field.default is not None:
        values = field.default
        assert all(getattr(values, f.name) == f.default for f in fields_of(field.type.cls))
        return "its fields'"
    return field.default


def their_fields(
    fields: list[dict[str, Any]], outer: Range, common: dict[str, Any]
) -> list[dict[str, Any]]:
    shown = []
    for field in fields:
        # Kafka: a field without versions has those of its tag.
        versions = clip(parse_range(field.get("versions") or field["taggedVersions"]), outer)
        if versions is None:
            continue
        shown.append(
            {
                "name": field["name"].lower(),
                "type": their_type(field, field["type"], versions, common),
                "versions": versions,
                "nullable": clip(parse_range(field.get("nullableVersions", "none")), versions),
                "default": their_default(field),
                "tag": field.get("tag"),
                "tagged": clip(parse_range(field.get("taggedVersions", "none")), versions),
                "ignorable": field.get("ignorable", False) if versions != outer else None,
                "compact": field.get("flexibleVersions") != "none",
            }
        )
    return shown


def their_type(field: dict[str, Any], name: str, versions: Range, common: dict[str, Any]) -> Any:
    if name.startswith("[]"):
        return ["array of", their_type(field, name[2:], versions, common)]
    if name in LETTERS.values() or name in ("string", "bytes", "records"):
        return name
    return their_fields(field.get("fields") or common[name], versions, common)


def their_default(field: dict[str, Any]) -> Any:
    default, kind = field.get("default", ""), field["type"]
    if default in ("null", None):
        return None
    if kind.startswith("[]"):
        return ()
    if kind.startswith(("int", "uint")):
        return int(str(default) or "0", 0)
    simple = {"float64": 0.0, "uuid": bytes(16), "bytes": b"", "records": b"", "string": default}
    if kind == "bool":
        return str(default).lower() == "true"
    assert kind == "string" or default == ""
    return simple.get(kind, "its fields'")


def assert_as_defined(cls: type[Message], definition: dict[str, Any]) -> None:
    """Versions and fields of a class are those of the definition."""
    versions, flexible = (
        parse_range(definition["validVersions"]),
        parse_range(definition["flexibleVersions"]),
    )
    assert versions is not None
    assert versions == cls.VERSIONS
    assert (flexible[0] if flexible else None) == cls.FLEXIBLE_FROM
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    assert our_fields(cls, versions) == their_fields(definition["fields"], versions, common)
