"""Lines become records, by the rules of Kafka's console producer."""

from __future__ import annotations

import os

import pytest

from tidelog.cli import lines as module
from tidelog.cli.lines import BadLine, LineReader, LineRecord, lines


def read(line: bytes, **properties: str) -> LineRecord:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return LineReader.from_properties(given).read(line, 7)


@pytest.mark.parametrize(
    ("line", "properties", "record"),
    [
        (b"value", {}, (None, b"value", ())),
        (b"", {}, (None, b"", ())),
        (b"k\tv\tw", {"parse_key": "true"}, (b"k", b"v\tw", ())),
        (b"k:v", {"parse_key": "TRUE", "key_separator": ":"}, (b"k", b"v", ())),
        (b"k\tv", {"parse_key": "true", "key_separator": "\\t"}, (b"k", b"v", ())),
        (b"a:1,b:2:3\tv", {"parse_headers": "true"}, (None, b"v", ((b"a", b"1"), (b"b", b"2:3")))),
        (
            b"a:1\tk\tv",
            {"parse_headers": "true", "parse_key": "true"},
            (b"k", b"v", ((b"a", b"1"),)),
        ),
        (
            b"a:NIL\tNIL\tNIL",
            {"parse_headers": "true", "parse_key": "true", "null_marker": "NIL"},
            (None, None, ((b"a", None),)),
        ),
        (b"NIL\tv", {"parse_headers": "true", "null_marker": "NIL"}, (None, b"v", ())),
        (b"no key", {"parse_key": "true", "ignore_error": "true"}, (None, b"no key", ())),
    ],
)
def test_a_line_is_cut_as_the_properties_say(line, properties, record):
    assert read(line, **properties) == LineRecord(*record)


@pytest.mark.parametrize(
    ("line", "properties", "said"),
    [
        (b"v", {"parse_key": "true"}, "line 7 has no tab behind its key"),
        (b"v", {"parse_key": "true", "key_separator": "::"}, "line 7 has no '::'"),
        (b"v", {"parse_headers": "true"}, "line 7 has no tab behind its headers"),
        (b"a\tv", {"parse_headers": "true"}, "line 7: header 'a' has no ':'"),
    ],
)
def test_a_line_that_does_not_fit_is_named(line, properties, said):
    with pytest.raises(BadLine, match=said):
        read(line, **properties)


def test_every_record_gets_the_headers_of_the_command():
    reader = LineReader.from_properties({}, ((b"source", b"file"),))
    assert reader.read(b"v", 1).headers == ((b"source", b"file"),)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"parse.keys": "true"}, "no reader property parse.keys; there are parse.key,"),
        ({"key.separator": ""}, "must not be empty"),
    ],
)
def test_bad_properties_are_refused(properties, said):
    with pytest.raises(BadLine, match=said):
        LineReader.from_properties(properties)


def test_lines_of_a_pipe_come_as_they_are_written_and_silence_is_told():
    read_end, write_end = os.pipe()
    os.write(write_end, b"one\ntw")
    found = lines(read_end, 1)
    assert next(found) == b"one"
    assert next(found) is None
    os.write(write_end, b"o\r\n\nlast")
    os.close(write_end)
    assert list(found) == [b"two", b"", b"last"]
    os.close(read_end)


def test_lines_that_span_many_reads_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", 3)
    path = tmp_path / "lines"
    path.write_bytes(b"0123456789\nabc\n")
    with path.open("rb") as file:
        assert [line for line in lines(file.fileno(), 0) if line is not None] == [
            b"0123456789",
            b"abc",
        ]


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", 3)
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 5)
    path = tmp_path / "lines"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file, pytest.raises(BadLine, match="longer than 5 bytes"):
        list(lines(file.fileno(), 0))
