"""Every config against Apache Kafka's own definitions: a difference in anything fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.jvm import run_program
from tidelog.config.broker import BROKER_KEYS, broker_synonyms
from tidelog.config.definition import ConfigKey, ConfigType, InvalidConfig
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.unused import UNUSED

pytestmark = pytest.mark.interop

PROGRAM = "ConfigDefinitions"
KEPT = {"leader.imbalance.per.broker.percentage"}
"""Of earlier versions of Kafka, with the meaning that they had there."""
OURS = {
    "topic": TOPIC_KEYS,
    "broker": {name: key for name, key in BROKER_KEYS.items() if name not in KEPT},
}

DEFAULTS_OF_OURS = {
    # There is no authentication yet: nobody but this machine, unless asked for.
    ("broker", "listeners"): "PLAINTEXT://127.0.0.1:9092",
}


@pytest.fixture(scope="module")
def theirs() -> dict[tuple[str, str], dict[str, Any]]:
    printed = run_program(PROGRAM).decode()
    rows = [json.loads(line) for line in printed.splitlines()]
    return {(row["scope"], row["name"]): row for row in rows}


def our_row(scope: str, key: ConfigKey) -> dict[str, Any]:
    row = {
        "scope": scope,
        "name": key.name,
        "type": key.type.name,
        "required": key.is_required,
        "default": key.default_text,
        "valid": None if key.valid is None else str(key.valid),
        "internal": key.is_internal,
    }
    if scope == "topic":
        row["synonyms"] = [f"{synonym.name}={synonym.factor}" for synonym in key.synonyms]
    else:
        row["mode"] = key.mode.value
        row["synonyms"] = list(broker_synonyms(key.name))
    return row


def test_every_name_of_kafka_is_known_and_no_other(
    theirs: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert {name for scope, name in theirs if scope == "topic"} == set(TOPIC_KEYS)
    assert {name for scope, name in theirs if scope == "broker"} == set(OURS["broker"]) | UNUSED
    assert not set(BROKER_KEYS) & UNUSED


@pytest.mark.parametrize("scope", OURS)
def test_definitions_agree(scope: str, theirs: dict[tuple[str, str], dict[str, Any]]) -> None:
    for name, key in OURS[scope].items():
        expected = dict(theirs[scope, name])
        expected["default"] = DEFAULTS_OF_OURS.get((scope, name), expected["default"])
        assert our_row(scope, key) == expected


def samples(key: ConfigKey) -> list[str]:
    """Values that lie on both sides of what the key may hold."""
    tried = ["", "abc", "true", "FALSE", " 7 ", "-3", "-2", "-1", "0", "1", "2.5", "1e3", "1,1"]
    tried += ["*", "0:1,2:3", "0:1,x", "a,b", "a,,b", "delete", "compact, delete", "delete,none"]
    tried += ["gzip", "CreateTime", "createtime", "broker", "broker,controller", "broker,x"]
    for bits in (15, 31, 63):
        tried += [str((1 << bits) - 1), str(1 << bits), str(-(1 << bits)), str(-(1 << bits) - 1)]
    for bound in ("minimum", "maximum"):
        if hasattr(key.valid, bound):
            limit = getattr(key.valid, bound)
            tried += [str(limit - 1), str(limit), str(limit + 1)]
    return tried


def complaint(key: ConfigKey, value: str) -> str | None:
    try:
        key.parse(value)
    except InvalidConfig as refused:
        return str(refused)
    return None


def test_values_are_refused_as_kafka_refuses_them() -> None:
    cases = [
        (scope, key, value)
        for scope, keys in OURS.items()
        for key in keys.values()
        for value in samples(key)
        if key.type is not ConfigType.DOUBLE or "x" not in value
    ]
    lines = [
        json.dumps({"scope": scope, "name": key.name, "value": value})
        for scope, key, value in cases
    ]
    printed = run_program(PROGRAM, "values", stdin="\n".join(lines).encode())
    verdicts = [json.loads(line) for line in printed.decode().splitlines()]
    assert len(verdicts) == len(cases) > 5000
    differences = []
    for (scope, key, value), verdict in zip(cases, verdicts, strict=True):
        ours = complaint(key, value)
        # Ours may go on: a refusal says what is allowed.
        if (ours is None) != (verdict is None) or not (ours or "").startswith(verdict or ""):
            differences.append((scope, key.name, value, ours, verdict))
    assert differences == []
