"""The demo runs, shows that all is right, and fails where something is not."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from tidelog.cli import demo_batches, demo_connection, demo_messages
from tidelog.cli.main import tidelog


@pytest.fixture(autouse=True)
def measure_briefly(monkeypatch):
    monkeypatch.setattr(demo_messages, "MEASURED_SECONDS", 0.0)


def test_the_demo_shows_that_all_is_right():
    answer = CliRunner().invoke(tidelog, ["demo"], env={"COLUMNS": "100"})
    assert answer.exit_code == 0, answer.output
    assert "✗" not in answer.output
    count = re.search(r"(\d+) of (\d+) came back equal", answer.output)
    assert count is not None
    assert count[1] == count[2]
    assert max(map(len, answer.output.splitlines())) <= 100


def test_the_demo_fails_where_a_message_changes(monkeypatch):
    monkeypatch.setattr(demo_messages, "returns_unchanged", lambda cls, version: version != 3)
    answer = CliRunner().invoke(tidelog, ["demo"])
    assert answer.exit_code == 1
    assert "✗ ProduceRequest v3" in answer.output
    assert "did not come back as it was sent" in answer.output


def test_the_demo_fails_where_a_bad_batch_is_taken(monkeypatch):
    taken = [demo_batches.Attempt("one bit flipped", "", "taken, which is wrong")]
    monkeypatch.setattr(demo_batches, "attempts", lambda: taken)
    assert CliRunner().invoke(tidelog, ["demo"]).exit_code == 1


def test_every_bad_batch_is_refused_for_its_own_reason():
    told = [attempt.error_code for attempt in demo_batches.attempts()]
    assert told == [
        "CORRUPT_MESSAGE",
        "INVALID_RECORD",
        "INVALID_RECORD",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "MESSAGE_TOO_LARGE",
    ]


def test_a_connection_answers_api_versions_and_closes_on_anything_else():
    got = [exchange.got for exchange in demo_connection.exchanges()]
    assert got == [
        "NONE; served: ApiVersions 0-4",
        "UNSUPPORTED_VERSION; served: ApiVersions 0-4",
        *["the connection closed"] * 3,
    ]
