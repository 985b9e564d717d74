"""The configs of a topic, alone and together."""

from __future__ import annotations

import pytest

from tidelog.config.broker import BROKER_KEYS
from tidelog.config.definition import InvalidConfig
from tidelog.config.topic import TOPIC_KEYS, parse_topic_configs, validate_topic_configs


def test_synonyms_are_keys_of_the_broker_with_the_same_default():
    for key in TOPIC_KEYS.values():
        for synonym in key.synonyms:
            assert synonym.name in BROKER_KEYS, key.name
        given = [
            BROKER_KEYS[synonym.name].default * synonym.factor
            if synonym.factor != 1
            else BROKER_KEYS[synonym.name].default
            for synonym in key.synonyms
            if BROKER_KEYS[synonym.name].default is not None
        ]
        assert not given or given[0] == key.default, key.name


def test_parse():
    assert parse_topic_configs({"cleanup.policy": "compact, delete", "segment.ms": "5"}) == {
        "cleanup.policy": ("compact", "delete"),
        "segment.ms": 5,
    }


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"no.such": "1"},
            "Unknown topic config name: no.such (allowed: what docs/configuration.md lists)",
        ),
        ({"retention.msec": "1"}, "nearest: retention.ms, "),
        ({"log.roll.hours": "1"}, "nearest: segment.ms"),
        ({"segment.bytes": "1"}, "Value must be at least 1048576"),
        ({"cleanup.policy": "x" * 32768}, "longer than 32767"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "lag.ms (5) > max"),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
    ],
)
def test_refused(overrides, message):
    with pytest.raises(InvalidConfig) as refused:
        validate_topic_configs(overrides, {})
    assert message in str(refused.value)


def test_what_the_broker_gives_counts_too():
    validate_topic_configs({"max.compaction.lag.ms": "4"}, {})
    with pytest.raises(InvalidConfig):
        validate_topic_configs({"max.compaction.lag.ms": "4"}, {"min.compaction.lag.ms": 9})
