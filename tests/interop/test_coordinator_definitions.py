"""Records of groups, transactions and quorum-state against the definitions in Apache's jars."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.definitions import assert_as_defined, theirs
from tidelog.coordinator.records import GROUP_KINDS, TRANSACTION_KINDS, Kinds
from tidelog.raft.election_state import ElectionState, format_quorum_state
from tidelog.raft.types import ReplicaKey
from tidelog.types import Uuid

pytestmark = pytest.mark.interop

JARS = {
    "kafka-group-coordinator": GROUP_KINDS,
    "kafka-transaction-coordinator": TRANSACTION_KINDS,
}
JSON_TYPES = {"string": str, "uuid": str, "int32": int, "int64": int}


@pytest.mark.parametrize("jar", JARS)
def test_every_record_is_as_defined(jar: str) -> None:
    definitions, kinds = theirs(jar, "common/message"), JARS[jar]
    assert numbers(kinds) == {name: one["apiKey"] for name, one in definitions.items()}
    for pair in kinds.values():
        for cls in pair:
            assert_as_defined(cls, definitions[cls.__name__])


def numbers(kinds: Kinds) -> dict[str, int]:
    return {cls.__name__: number for number, pair in kinds.items() for cls in pair}


@pytest.mark.parametrize("version", [0, 1])
def test_quorum_state_has_the_fields_that_are_defined(version: int) -> None:
    """In their order, and in the form that Kafka gives to JSON."""
    definition = theirs("kafka-raft", "common/message")["QuorumStateData"]
    voted = ReplicaKey(2, Uuid(bytes(range(16))))
    content = json.loads(format_quorum_state(ElectionState(3, voted=voted), version, (1, 2)))
    assert content.pop("data_version") == version
    assert_fields(content, definition["fields"], version)


def assert_fields(found: dict[str, Any], definitions: list[Any], version: int) -> None:
    fields = [one for one in definitions if has(one["versions"], version)]
    assert [*found] == [one["name"][0].lower() + one["name"][1:] for one in fields]
    for value, one in zip(found.values(), fields, strict=True):
        if one["type"].startswith("[]"):
            assert value
            for element in value:
                assert_fields(element, one["fields"], version)
        else:
            assert isinstance(value, JSON_TYPES[one["type"]]), one


def has(versions: str, version: int) -> bool:
    first, _, last = versions.rstrip("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last or first))
