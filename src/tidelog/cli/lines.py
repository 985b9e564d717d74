"""Lines as records: where the key ends, which headers there are. The rules of Kafka's
LineMessageReader, on bytes."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping
from typing import NamedTuple

CHUNK_BYTES = 256 << 10
LINE_BYTES_MAX = 64 << 20
"""A file without newlines shall not fill the memory."""

PROPERTIES = {
    "parse.key": "false",
    "parse.headers": "false",
    "ignore.error": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": "",
}

Headers = tuple[tuple[bytes, bytes | None], ...]


class BadLine(Exception):
    """A line, or a property, that does not say what it should."""


class LineRecord(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class LineReader(NamedTuple):
    """How to read a line."""

    parse_key: bool
    parse_headers: bool
    ignore_error: bool
    key_separator: bytes
    headers_delimiter: bytes
    headers_separator: bytes
    headers_key_separator: bytes
    null_marker: bytes
    headers: Headers
    """Of every record."""

    @classmethod
    def from_properties(cls, given: Mapping[str, str], headers: Headers = ()) -> LineReader:
        """BadLine if there is no such property."""
        unknown = sorted(given.keys() - PROPERTIES.keys())
        if unknown:
            names = ", ".join(PROPERTIES)
            raise BadLine(f"there is no reader property {unknown[0]}; there are {names}")
        values = {**PROPERTIES, **given}
        parse_key, parse_headers, ignore_error, *texts = values.values()
        flags = (text.lower() == "true" for text in (parse_key, parse_headers, ignore_error))
        separators = [_unescape(text).encode() for text in texts]
        if not all(separators[:-1]):
            raise BadLine("a separator must not be empty")
        return cls._make([*flags, *separators, headers])

    def read(self, line: bytes, number: int) -> LineRecord:
        """BadLine names the line that cannot be read, unless errors are ignored."""
        rest = line
        headers: Headers = ()
        if self.parse_headers:
            text, found, tail = rest.partition(self.headers_delimiter)
            if found:
                rest = tail
                headers = self._read_headers(text, number)
            elif not self.ignore_error:
                raise BadLine(
                    f"line {number} has no {self._shown(self.headers_delimiter)} behind its headers"
                )
        key: bytes | None = None
        if self.parse_key:
            text, found, tail = rest.partition(self.key_separator)
            if found:
                key, rest = self._nullable(text), tail
            elif not self.ignore_error:
                raise BadLine(
                    f"line {number} has no {self._shown(self.key_separator)} behind its key"
                )
        return LineRecord(key, self._nullable(rest), headers + self.headers)

    def _read_headers(self, text: bytes, number: int) -> Headers:
        if text == self.null_marker and self.null_marker:
            return ()
        headers: list[tuple[bytes, bytes | None]] = []
        for pair in text.split(self.headers_separator):
            name, found, value = pair.partition(self.headers_key_separator)
            if not found and not self.ignore_error:
                shown = self._shown(self.headers_key_separator)
                raise BadLine(
                    f"line {number}: header {pair.decode(errors='replace')!r} has no "
                    f"{shown} behind its name"
                )
            headers.append((name, self._nullable(value) if found else None))
        return tuple(headers)

    def _nullable(self, field: bytes) -> bytes | None:
        return None if self.null_marker and field == self.null_marker else field

    @staticmethod
    def _shown(separator: bytes) -> str:
        return "tab" if separator == b"\t" else repr(separator.decode())


def _unescape(text: str) -> str:
    """A shell makes it hard to pass a tab."""
    return text.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0")


def lines(descriptor: int, idle_ms: int) -> Iterator[bytes | None]:
    """The lines of a file, pipe or terminal; None whenever nothing came for idle_ms."""
    pending = b""
    is_quiet = False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP)
    while True:
        if not is_quiet and not poll.poll(idle_ms):
            is_quiet = True
            yield None
        chunk = os.read(descriptor, CHUNK_BYTES)
        is_quiet = False
        if not chunk:
            break
        *whole, pending = (pending + chunk).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in whole)
        if len(pending) > LINE_BYTES_MAX:
            raise BadLine(f"a line is longer than {LINE_BYTES_MAX} bytes")
    if pending:
        yield pending
