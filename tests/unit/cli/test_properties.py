"""Properties files as Java reads them."""

from __future__ import annotations

import click
import pytest

from tidelog.cli.properties import parse_assignments, parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb = 2\n", {"a": "1", "b": "2"}),
        ("a:1\nb : 2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n  ! b=2\n\n  c=3", {"c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=x\\ty\\nz\\u00e9\\:", {"a": "x\ty\nzé:"}),
        ("a\\ b\\==1", {"a b=": "1"}),
        ("a=1  ", {"a": "1  "}),
        ("a=\\\n  # b", {"a": "# b"}),
        ("a=1\\", {"a": "1"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_lines_are_read_as_java_does(text, found):
    assert parse_properties(text) == found


def test_assignments_are_names_and_values():
    assert parse_assignments(["a=1", " b = 2=3 ", "c="]) == {"a": "1", "b": "2=3", "c": ""}


@pytest.mark.parametrize("bad", ["a", "=1", " =1"])
def test_what_is_no_assignment_is_named(bad):
    with pytest.raises(click.UsageError, match="is not NAME=VALUE"):
        parse_assignments(["a=1", bad])
