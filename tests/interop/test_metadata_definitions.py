"""Every metadata record against the definitions inside Apache's own jar."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.definitions import assert_as_defined, theirs
from tidelog.metadata.frame import RECORD_TYPES

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def definitions() -> dict[str, dict[str, Any]]:
    return theirs("kafka-metadata", "common/metadata")


def test_every_record_is_declared(definitions: dict[str, dict[str, Any]]) -> None:
    assert {number: cls.__name__ for number, cls in RECORD_TYPES.items()} == {
        definition["apiKey"]: name for name, definition in definitions.items()
    }


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_record_is_as_defined(number: int, definitions: dict[str, dict[str, Any]]) -> None:
    cls = RECORD_TYPES[number]
    assert_as_defined(cls, definitions[cls.__name__])
