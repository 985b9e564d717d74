"""Every message against the definitions inside Apache's own jar: a difference in anything fails."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.interop.definitions import assert_as_defined, theirs
from tests.interop.jvm import run_program
from tidelog.errors import ErrorCode
from tidelog.wire import headers
from tidelog.wire.api import APIS, DATA_MODULES, Listener, request_class, response_class
from tidelog.wire.declare import Message

pytestmark = pytest.mark.interop


def ours() -> dict[str, type[Message]]:
    classes = [request_class(key) for key in APIS] + [response_class(key) for key in APIS]
    for module in [headers, *map(importlib.import_module, DATA_MODULES)]:
        classes += [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Message) and value is not Message
        ]
    return {cls.__name__: cls for cls in classes}


@pytest.fixture(scope="module")
def definitions() -> dict[str, dict[str, Any]]:
    return theirs("kafka-clients", "common/message")


def test_every_message_is_declared(definitions: dict[str, dict[str, Any]]) -> None:
    assert set(ours()) == set(definitions)
    assert len(definitions) == 2 * len(APIS) + 12


@pytest.mark.parametrize("name", sorted(ours()))
def test_message_is_as_defined(name: str, definitions: dict[str, dict[str, Any]]) -> None:
    assert_as_defined(ours()[name], definitions[name])


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_api_is_as_defined(api: Any, definitions: dict[str, dict[str, Any]]) -> None:
    request = definitions[f"{api.name}Request"]
    assert definitions[f"{api.name}Response"]["apiKey"] == request["apiKey"] == api.key
    named = {listener.name.lower() for listener in Listener if listener in api.listeners}
    assert named == set(request["listeners"])
    assert api.latest_is_unstable == request.get("latestVersionUnstable", False)


def test_error_codes_are_kafkas() -> None:
    printed = run_program("Errors").decode().split("\n")
    rows = [line.split() for line in printed if line]
    assert {(code.value, code.name, code.is_retriable) for code in ErrorCode} == {
        (int(code), name, retriable == "true") for code, name, retriable in rows
    }
