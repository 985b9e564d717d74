"""The two commands on files: dump-log and repair-log. What Apache's tool prints is held against
ours in tests/interop."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.unit.log.log_samples import NOW, append, built, marker, open_log, produced

from tidelog.cli import dump_log, repair_log
from tidelog.disk import RealDisk
from tidelog.log.config import LogConfig
from tidelog.wire.batch import TRANSACTIONAL


@pytest.fixture
def log(tmp_path):
    config = LogConfig(segment_bytes=700, index_interval_bytes=100)
    log = open_log(RealDisk(), config, path=f"{tmp_path}/data/tides-0")
    for i in range(12):
        append(log, produced(2, 5, 2 * i, attributes=TRANSACTIONAL))
        append(log, built(3))
    log.append_built(marker(5, commit=False), 0, NOW)
    log.close(NOW)
    return log


def dump(*files: str, flags: tuple[str, ...] = ()):
    return CliRunner().invoke(dump_log.command, ["--files", ",".join(files), *flags])


def flip(path: str, position: int) -> None:
    with open(path, "r+b") as file:  # noqa: PTH123
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0x55]))


def test_json(log):
    path = log.segments.active.path(".log")
    answer = dump(path, flags=("--json", "--print-data-log"))
    items = [json.loads(line) for line in answer.stdout.splitlines()]
    assert answer.exit_code == 0
    assert items[0]["file"] == path
    assert items[0]["isvalid"] is True
    assert items[-1]["endTxnMarker"] == "ABORT"
    answer = dump(log.segments[0].path(".log"), flags=("--json", "--print-data-log"))
    assert json.loads(answer.stdout.splitlines()[1])["payload"] == "v0"


def test_a_damaged_index_is_told(log):
    path = log.segments[0].path(".index")
    flip(path, 3)
    answer = dump(path)
    assert answer.exit_code == 1
    assert "Mismatches in" in answer.stderr
    flip(path, 3)
    flip(path, 7)
    assert "no batch begins at position" in dump(path).stderr
    path = log.segments[0].path(".timeindex")
    flip(path, 7)
    assert "timestamp mismatch" in dump(path).stderr


def test_a_torn_and_a_damaged_log_are_told(log):
    path = log.segments[0].path(".log")
    flip(path, 75)
    answer = dump(path)
    assert answer.exit_code == 1
    assert "isvalid: false" in answer.stdout
    assert "position 0" in answer.stderr
    with open(path, "ab") as file:  # noqa: PTH123
        file.write(b"x" * 50)
    answer = dump(path, flags=("--deep-iteration",))
    assert answer.exit_code == 1
    assert "Found 50 invalid bytes at the end" in answer.stderr


@pytest.mark.parametrize("name", ["nothing.log", "leader-epoch-checkpoint"])
def test_other_files_are_refused(log, name):
    answer = dump(f"{log.path}/{name}")
    assert answer.exit_code == 1
    assert answer.stderr.count("\n") == 1


def test_repair(log):
    def run(*arguments: str):
        return CliRunner().invoke(repair_log.command, [log.path, *arguments])

    assert run().exit_code == 0
    path = log.segments[1].path(".log")
    flip(path, 90)
    names = log.disk.names(log.path)
    answer = run()
    assert answer.exit_code == 1
    assert path in answer.stderr
    assert log.disk.names(log.path) == names
    answer = run("--cut")
    assert answer.exit_code == 0, answer.output
    assert "are left" in answer.stdout
    assert run().exit_code == 0
    again = open_log(RealDisk(), log.config, is_clean=True, path=log.path)
    assert again.log_end_offset == log.segments[1].base_offset + 2
    log.disk.lock(log.path.removesuffix("tides-0") + ".lock")
    answer = run()
    assert answer.exit_code == 1
    assert "stop it first" in answer.stderr
