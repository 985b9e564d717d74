"""Java's properties files: how Kafka writes its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
BLANKS = " \t\f"
HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file; one line that names it ends the command if it cannot be read."""
    try:
        return parse_properties(path.read_text("utf-8"))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path} is not UTF-8: {error}") from None
    except ValueError as error:
        raise click.ClickException(f"{path}: {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; of a name that comes twice the last value. ValueError if a \\u lacks its
    digits."""
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
                letter = _letter(text[position : position + 4])
                position += 4
            else:
                letter = ESCAPES.get(letter, letter)
        plain.append(letter)
    return "".join(plain)


def _letter(digits: str) -> str:
    if len(digits) < 4 or not HEXADECIMAL.issuperset(digits):
        raise ValueError(f"want four hexadecimal digits behind \\u, not {digits!r}")
    return chr(int(digits, 16))
