"""What `tidelog produce` says while brokers refuse its records: these in memory, time virtual."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.client.memory import MemoryShell
from tests.unit.client.test_producer import MemoryLogs

import tidelog.client
from tidelog.cli import produce
from tidelog.cli.lines import LineRecord
from tidelog.cli.producing import TOLD_AFTER_MS, Producing
from tidelog.client import TimedOut
from tidelog.errors import ErrorCode

FULL = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def logs() -> MemoryLogs:
    return MemoryLogs()


@pytest.fixture
def shell(logs: MemoryLogs) -> MemoryShell:
    return MemoryShell(logs.cluster)


def producing(shell: Any, **settings: Any) -> Producing:
    limits = {"acks": -1, "codec": "none", "batch_size": 1000} | settings
    return Producing(shell, "orders", 0, **limits)


def send(run: Producing) -> None:
    run.append(LineRecord(None, b"x", ()))
    run.flush()


def test_a_broker_that_refuses_for_seconds_is_told_once(logs, shell, capsys):
    run = producing(shell)
    logs.codes = [FULL] * 2
    send(run)
    assert shell.time_ms < TOLD_AFTER_MS
    assert capsys.readouterr().err == ""
    for _ in range(2):
        logs.codes = [FULL] * 20
        before_ms = shell.time_ms
        send(run)
        assert shell.time_ms > before_ms + 2 * TOLD_AFTER_MS
        said = "Waiting: partition orders-0: the broker cannot write to its disk\n"
        assert capsys.readouterr().err == said
    assert logs.sequences(0) == [0, 1, 2]


def test_batches_behind_a_refused_one_are_no_success(shell, logs, capsys, monkeypatch):
    run = producing(shell, batch_size=1)
    send(run)
    refusals = iter(range(100))
    append = logs._append

    def refuse(index: int, found: Any, outcome: Any) -> tuple[int, int]:
        code, offset = append(index, found, outcome)
        if code == ErrorCode.NONE and next(refusals, None) is not None:
            logs.appended[index].pop()
            return FULL, -1
        return code, offset

    monkeypatch.setattr(logs, "_append", refuse)
    for _ in range(5):
        run.append(LineRecord(None, b"x", ()))
    run.flush()
    assert logs.sequences(0) == list(range(6))
    assert shell.time_ms > 2 * TOLD_AFTER_MS
    assert capsys.readouterr().err.count("Waiting: ") == 1


@pytest.mark.parametrize(("settings", "seconds"), [({}, 120), ({"delivery_timeout_ms": 7_000}, 7)])
def test_a_broker_that_refuses_for_too_long_is_given_up(logs, shell, capsys, settings, seconds):
    run = producing(shell, **settings)
    logs.codes = [FULL] * 1000
    with pytest.raises(TimedOut, match="the broker cannot write to its disk"):
        send(run)
    assert seconds - 2 <= shell.time_ms / 1000 <= seconds
    assert capsys.readouterr().err.count("\n") == 1


def test_a_partition_without_a_leader_is_told_too(logs, shell, capsys):
    run = producing(shell, delivery_timeout_ms=7_000)
    send(run)
    logs.cluster.leaders["orders"][0] = (-1, 1)
    shell.cluster.forget(["orders"])
    with pytest.raises(TimedOut):
        send(run)
    assert "the partition has no leader now" in capsys.readouterr().err


def test_a_command_ends_when_it_is_told_to(logs, monkeypatch, tmp_path):
    class MemoryClient(MemoryShell):
        def __init__(self, settings: Any) -> None:
            super().__init__(logs.cluster, request_timeout_ms=settings.request_timeout_ms)

        def __enter__(self) -> MemoryClient:
            return self

        def __exit__(self, *_: object) -> None:
            assert 4 <= self.time_ms / 1000 <= 6
            assert self.cluster.settings.request_timeout_ms == 6_000, "it may not take longer"

    monkeypatch.setattr(tidelog.client, "Client", MemoryClient)
    logs.codes = [FULL] * 1000
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    arguments = ["--topic", "orders", "--partition", "0", "--file", str(lines)]
    arguments += ["--command-property", "delivery.timeout.ms=6000"]
    answer = CliRunner().invoke(produce.command, arguments)
    assert answer.exit_code == 1
    waiting, error = answer.stderr.splitlines()
    why = "partition orders-0: the broker cannot write to its disk"
    assert waiting == f"Waiting: {why}"
    assert error.startswith("Error: gave up after ")
    assert error.endswith(why)
