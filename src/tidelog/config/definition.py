"""What a configuration key is: its type, its default, what it may hold, and how it may change.

A value is text on the wire, in files and in the metadata log; `ConfigKey.parse` gives it its
type or says, in the words of Kafka's own refusals, what is allowed instead.
"""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from tidelog.config.valid import Items, Valid, Value, format_value

LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1
SENSITIVE_VALUE = "[hidden]"


class InvalidConfig(ValueError):
    """A value, or a name, that is refused; the message goes to whoever wrote it."""


class ConfigType(IntEnum):
    """The codes are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """How a broker's key may change while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


INTEGER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class Synonym(NamedTuple):
    """A broker's key that gives a topic's key its default; in another unit perhaps."""

    name: str
    factor: int = 1
    """The topic's value is this many times the broker's: hours and minutes to milliseconds."""


class ConfigKey(NamedTuple):
    """One key. `default` is of the key's type; without one the key must be given."""

    name: str
    type: ConfigType
    default: Any
    documentation: str
    valid: Valid | None = None
    mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    is_internal: bool = False
    """Works, but is not shown: for tests."""
    is_required: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def default_text(self) -> str | None:
        return format_value(self.default)

    def parse(self, text: str) -> Value:
        """The value; InvalidConfig if it is not one that the key may hold."""
        value = parse_value(self, text)
        if isinstance(self.valid, Items):
            assert isinstance(value, tuple)
            value = tuple(dict.fromkeys(value))
        complaint = self.valid.complaint(self.name, value) if self.valid is not None else None
        if complaint is not None:
            raise InvalidConfig(complaint)
        return value

    def allowed(self) -> str:
        """For people: the type and the range."""
        kind = {
            ConfigType.BOOLEAN: "true or false",
            ConfigType.LIST: "a list with commas between its items",
            ConfigType.DOUBLE: "a number",
            ConfigType.STRING: "text",
            ConfigType.CLASS: "a name",
            ConfigType.PASSWORD: "text",
        }.get(self.type, f"a whole number of {INTEGER_BITS.get(self.type, 0)} bits")
        valid = self.valid.words() if self.valid is not None else ""
        return f"{kind}, {valid}" if valid else kind


def parse_value(key: ConfigKey, text: str) -> Value:
    """Text to the key's type, by the rules of Java's parsers that people are used to."""
    match key.type:
        case ConfigType.BOOLEAN:
            if text.strip().lower() not in ("true", "false"):
                raise invalid(key, text, "Expected value to be either true or false")
            return text.strip().lower() == "true"
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            return parse_integer(key, text)
        case ConfigType.DOUBLE:
            if not re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", text):
                raise invalid(key, text, "Not a number of type DOUBLE")
            return float(text)
        case ConfigType.LIST:
            return tuple(re.split(r"\s*,\s*", text.strip())) if text.strip() else ()
        case ConfigType.STRING | ConfigType.CLASS:
            return text.strip()
        case ConfigType.PASSWORD:
            return text


def parse_integer(key: ConfigKey, text: str) -> int:
    """Decimal digits only, with a sign perhaps: int() would take 1_000 and Arabic digits too."""
    value = parse_decimal(text.strip(), INTEGER_BITS[key.type])
    if value is None:
        raise invalid(key, text, f"Not a number of type {key.type.name}")
    return value


def parse_decimal(text: str, bits: int) -> int | None:
    """A whole number of so many bits, None if it is none. Of thousands of digits int() does not
    make a number."""
    found = re.fullmatch(r"([+-]?)0*([0-9]{1,19})", text)
    if found is None:
        return None
    value = int(found[1] + found[2])
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def invalid(key: ConfigKey, text: str, reason: str) -> InvalidConfig:
    """Kafka's sentence, and then what would have been right."""
    shown = SENSITIVE_VALUE if key.is_sensitive else text
    return InvalidConfig(
        f"Invalid value {shown} for configuration {key.name}: {reason} (allowed: {key.allowed()})"
    )
