"""Whoever wrote a name wrong is told which ones there are."""

from __future__ import annotations

import pytest

from tidelog.config.broker import BROKER_KEYS
from tidelog.config.nearest import NEAREST_MAX, nearest
from tidelog.config.topic import TOPIC_KEYS


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("log.segment.byte", "log.segment.bytes"),
        ("log.retension.ms", "log.retention.ms"),
        ("log_retention_ms", "log.retention.ms"),
        ("Log.Retention.Ms", "log.retention.ms"),
        ("listner.security.protocol.map", "listener.security.protocol.map"),
        ("message.bytes.max", "message.max.bytes"),
    ],
)
def test_the_first_is_what_was_meant(written: str, meant: str) -> None:
    found = nearest(written, BROKER_KEYS)
    assert found[0] == meant
    assert len(found) <= NEAREST_MAX


@pytest.mark.parametrize("written", ["", "x", "no.such", "purple.elephant", "log." * 10_000])
def test_what_is_like_nothing_is_near_nothing(written: str) -> None:
    assert nearest(written, TOPIC_KEYS) == []


def test_a_key_is_nearest_to_itself() -> None:
    for name in BROKER_KEYS:
        assert nearest(name, BROKER_KEYS)[0] == name
