"""Java's properties files: how Kafka writes its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
BLANKS = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; of a name that comes twice the last value."""
    return dict(_pair(line) for line in _logical_lines(text.splitlines()))


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """What an option that may be repeated says as name=value."""
    properties = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{assignment!r} is not NAME=VALUE")
        properties[name.strip()] = value.strip()
    return properties


def warn_of_unused(config: BrokerConfig) -> None:
    """A line for each of Kafka's properties that does nothing here."""
    for name in config.unused:
        click.echo(f"warning: {name} has no meaning here and is ignored", err=True)


def _logical_lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines that end in a backslash go on in the next; comments do not."""
    pending = ""
    for line in lines:
        stripped = line.lstrip(BLANKS)
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        pending += stripped
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _pair(line: str) -> tuple[str, str]:
    """The name ends at the first blank, = or : that no backslash escapes."""
    end = 0
    while end < len(line) and line[end] not in "=:" + BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANKS)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\\" and position < len(text):
            letter = text[position]
            position += 1
            if letter == "u":
                digits = text[position : position + 4]
                letter = chr(int(digits, 16))
                position += 4
            else:
                letter = ESCAPES.get(letter, letter)
        plain.append(letter)
    return "".join(plain)
