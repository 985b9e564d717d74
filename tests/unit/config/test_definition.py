"""Parsing and formatting values. That Kafka parses alike is shown in tests/interop."""

from __future__ import annotations

import pytest

from tidelog.config.definition import ConfigKey, ConfigType, InvalidConfig
from tidelog.config.valid import (
    AtLeast,
    Between,
    Items,
    OneOf,
    ThrottledReplicas,
    format_value,
)


def key(kind: ConfigType, valid=None) -> ConfigKey:
    return ConfigKey("a.key", kind, None, "A key.", valid)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " True ", True),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.PASSWORD, " secret ", " secret "),
        (ConfigType.INT, "+7", 7),
        (ConfigType.SHORT, "-32768", -32768),
        (ConfigType.LONG, "9223372036854775807", (1 << 63) - 1),
        (ConfigType.LONG, "0" * 5000 + "7", 7),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.LIST, " a ,b,  c ", ("a", "b", "c")),
        (ConfigType.LIST, "  ", ()),
    ],
)
def test_parse(kind, text, value):
    assert key(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "٣"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "1.5"),
        (ConfigType.LONG, "1" * 5000),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "٣"),
    ],
)
def test_parse_refuses_and_says_what_is_allowed(kind, text):
    with pytest.raises(
        InvalidConfig, match=r"^Invalid value .* for configuration a\.key: .*\(allow"
    ):
        key(kind).parse(text)


def test_a_refusal_names_the_range():
    with pytest.raises(InvalidConfig, match=r"allowed: a whole number of 64 bits, at least -1"):
        key(ConfigType.LONG, AtLeast(-1)).parse("soon")
    with pytest.raises(InvalidConfig, match="no more than 17"):
        key(ConfigType.INT, Between(1, 17)).parse("18")
    with pytest.raises(InvalidConfig, match="String must be one of: red, blue"):
        key(ConfigType.STRING, OneOf(("red", "blue"))).parse("green")
    with pytest.raises(InvalidConfig, match="must not be empty"):
        key(ConfigType.LIST, Items()).parse("a,,a")


def test_an_item_that_is_there_twice_counts_once():
    assert key(ConfigType.LIST, Items()).parse("b,a,b") == ("b", "a")
    assert key(ConfigType.LIST, ThrottledReplicas()).parse("0:1,0:1") == ("0:1", "0:1")


def test_a_secret_is_not_shown():
    secret = key(ConfigType.PASSWORD, OneOf(("x",)))
    assert secret.is_sensitive
    assert not key(ConfigType.STRING).is_sensitive


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (("a", "b"), "a,b"),
        (7, "7"),
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.1, "1.23456781E7"),
        (-0.0001, "-1.0E-4"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_format_is_kafkas(value, text):
    assert format_value(value) == text
