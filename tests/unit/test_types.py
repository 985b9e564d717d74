"""Uuids as Kafka prints them."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.types import METADATA_TOPIC_ID, ZERO_UUID, Uuid, format_uuid, parse_uuid


@pytest.mark.parametrize(
    ("uuid", "text"),
    [
        (ZERO_UUID, "AAAAAAAAAAAAAAAAAAAAAA"),
        (METADATA_TOPIC_ID, "AAAAAAAAAAAAAAAAAAAAAQ"),  # as in Kafka's partition.metadata
        (Uuid(b"\xff" * 16), "_____________________w"),
        (Uuid(b"\xfb\xef\xbe" * 5 + b"\x00"), "--------------------AA"),
    ],
)
def test_text_is_kafkas(uuid, text):
    assert format_uuid(uuid) == text
    assert parse_uuid(text) == uuid


@given(st.binary(min_size=16, max_size=16))
def test_text_and_bytes_go_both_ways(raw):
    text = format_uuid(Uuid(raw))
    assert text == base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert parse_uuid(text) == raw


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A" * 21,
        "A" * 23,
        "A" * 22 + "==",
        "A" * 21 + "é",
        "A" * 21 + "=",
        "A" * 21 + " ",
        "A" * 10 + "\n" + "A" * 11,
        "A" * 10 + "!" + "A" * 11,
    ],
)
def test_anything_else_is_refused_with_the_reason(text):
    with pytest.raises(ValueError, match="is not a uuid: want 22 characters of base64url"):
        parse_uuid(text)


@given(st.text(max_size=30))
def test_only_uuids_parse(text):
    try:
        uuid = parse_uuid(text)
    except ValueError:
        return
    assert len(uuid) == 16
    assert len(text) == 22
