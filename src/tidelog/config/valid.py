"""What a key may hold beyond its type. A rule complains about a value in Kafka's words, and
describes itself twice: as Kafka's documentation shows it, and in plain words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol

Value = bool | str | int | float | tuple[str, ...] | None
"""What a key holds, by its type."""


class Valid(Protocol):
    """A rule for values."""

    def complaint(self, name: str, value: Any) -> str | None:
        """What is wrong with the value of this key; None if nothing is."""
        ...

    def words(self) -> str:
        """What is allowed, as the end of a sentence."""
        ...

    def __str__(self) -> str:
        """As Apache Kafka's definition prints it."""
        ...


class AtLeast(NamedTuple):
    minimum: int

    def complaint(self, name: str, value: Any) -> str | None:
        if value is not None and value < self.minimum:
            reason = f"Value must be at least {self.minimum}"
            return f"Invalid value {value} for configuration {name}: {reason}"
        return None

    def words(self) -> str:
        return f"at least {self.minimum}"

    def __str__(self) -> str:
        return f"[{self.minimum},...]"


class Between(NamedTuple):
    """Both ends are allowed, and the exception if there is one."""

    minimum: int
    maximum: int
    exception: int | None = None

    def complaint(self, name: str, value: Any) -> str | None:
        if self.minimum <= value <= self.maximum or value == self.exception:
            return None
        if self.exception is not None:
            reason = f"between {self.minimum} and {self.maximum} or equal to {self.exception}"
        elif value < self.minimum:
            reason = f"at least {self.minimum}"
        else:
            reason = f"no more than {self.maximum}"
        return (
            f"Invalid value {format_value(value)} for configuration {name}: Value must be {reason}"
        )

    def _exception(self) -> str:
        return "" if self.exception is None else f" or {self.exception}"

    def words(self) -> str:
        return f"from {self.minimum} to {self.maximum}{self._exception()}"

    def __str__(self) -> str:
        return f"[{self.minimum},...,{self.maximum}]{self._exception()}"


class OneOf(NamedTuple):
    choices: tuple[str, ...]

    def complaint(self, name: str, value: Any) -> str | None:
        if value in self.choices:
            return None
        reason = f"String must be one of: {', '.join(self.choices)}"
        return f"Invalid value {value} for configuration {name}: {reason}"

    def words(self) -> str:
        return f"one of {', '.join(self.choices)}"

    def __str__(self) -> str:
        return f"[{', '.join(self.choices)}]"


class NonNull:
    """Any text, the empty one too; there is always one."""

    def complaint(self, name: str, value: Any) -> str | None:
        return f"Configuration '{name}' must not be null." if value is None else None

    def words(self) -> str:
        return ""

    def __str__(self) -> str:
        return "non-null string"


class Items(NamedTuple):
    """A list whose items are, with choices, among these. One that is there twice counts once."""

    choices: tuple[str, ...] = ()
    may_be_empty: bool = True

    def complaint(self, name: str, value: Any) -> str | None:
        if value is None:
            return None
        if not value and not self.may_be_empty:
            examples = f"[{', '.join(self.choices)}]" if self.choices else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {examples}"
        for item in value:
            if not item:
                return f"Configuration '{name}' values must not be empty."
            if self.choices and item not in self.choices:
                reason = f"String must be one of: {', '.join(self.choices)}"
                return f"Invalid value {item} for configuration {name}: {reason}"
        return None

    def words(self) -> str:
        choices = f"of {', '.join(self.choices)}" if self.choices else ""
        return ", ".join(filter(None, (choices, "" if self.may_be_empty else "not empty")))

    def __str__(self) -> str:
        return f"[{', '.join(self.choices)}]" if self.choices else ""


class ThrottledReplicas:
    """`partition:broker` items, or `*` alone for all."""

    def complaint(self, name: str, value: Any) -> str | None:
        if all(re.fullmatch(r"[0-9]+:[0-9]+", item) for item in value) or value == ("*",):
            return None
        return (
            f"Invalid value [{', '.join(value)}] for configuration {name}: {name} must be the"
            f" literal '*' or a list of replicas in the following format: {self}"
        )

    def words(self) -> str:
        return "of partition:broker pairs, or *"

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class Voters:
    """id@host:port items; none where the quorum is dynamic."""

    def complaint(self, name: str, value: Any) -> str | None:
        if all(re.fullmatch(r"[0-9]+@.+:[0-9]+", item) for item in value):
            return None
        return (
            f"Invalid configuration value for {name}."
            " Each entry should be in the form `{id}@{host}:{port}`."
        )

    def words(self) -> str:
        return "of id@host:port items"

    def __str__(self) -> str:
        return "non-empty list"


class Servers:
    """host:port items; none where the quorum is static."""

    def complaint(self, name: str, value: Any) -> str | None:
        for item in value:
            if not re.fullmatch(r".+:[0-9]+", item):
                return (
                    f"Failed to parse host name from {item} for the configuration {name}."
                    ' Each entry should be in the form "{host}:{port}"'
                )
        return None

    def words(self) -> str:
        return "of host:port items"

    def __str__(self) -> str:
        return "non-empty list"


def format_value(value: Value) -> str | None:
    """A value as the text that parses to it, as Kafka writes it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return java_double(value)
        case _:
            return str(value)


def java_double(value: float) -> str:
    """Double.toString, which turns to E notation outside [10^-3, 10^7)."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if abs(value) == float("inf"):  # 1e400
        return "Infinity" if value > 0 else "-Infinity"
    from decimal import Decimal  # a default of this kind is rare, and the import is not cheap

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    fraction = "".join(map(str, digits[1:])) or "0"
    minus = "-" if sign else ""
    return f"{minus}{digits[0]}.{fraction}E{len(digits) - 1 + exponent}"
