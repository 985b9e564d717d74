"""The two commands on files: dump-log and repair-log. What Apache's tool prints is held against
ours in tests/interop."""

from __future__ import annotations

import io
import itertools
import json

import pytest
from click.testing import CliRunner
from tests.unit.log.log_samples import NOW, append, built, marker, open_log, produced

from tidelog.cli import dump_log, progress, repair_log
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


def test_of_an_index_no_more_is_told_than_was_asked_for(log):
    paths = [log.segments[0].path(".index"), log.segments[0].path(".timeindex")]
    verified = dump(*paths, flags=("--verify-index-only",))
    assert verified.exit_code == 0
    assert verified.stdout.splitlines() == [f"Dumping {path}" for path in paths]
    checked = dump(*paths, flags=("--index-sanity-check",))
    assert checked.exit_code == 0
    lines = [f"Dumping {path}\n{path} passed sanity check.\n" for path in paths]
    assert checked.stdout == "".join(lines)
    checked = dump(*paths, flags=("--index-sanity-check", "--json"))
    assert [json.loads(line)["passed"] for line in checked.stdout.splitlines()] == [True, True]
    for path in paths:
        flip(path, 7)
    verified = dump(*paths, flags=("--verify-index-only",))
    assert verified.exit_code == 1
    assert "Mismatches in" in verified.stderr
    assert "timestamp mismatch" in verified.stderr
    assert dump(*paths, flags=("--index-sanity-check",)).exit_code == 0, (
        "it looks at the ends alone"
    )


@pytest.mark.parametrize(
    ("kind", "content", "why"),
    [
        (".index", bytes(11), "no whole number"),
        (".index", b"\xff" * 8, "less than the base offset"),
        (".timeindex", bytes(11), "no whole number"),
        (".timeindex", bytes(8) + b"\xff" * 4, "less than the base offset"),
        (".timeindex", bytes(7) + b"\2" + bytes(11) + b"\1" + bytes(4), "less than the first"),
    ],
)
def test_an_index_that_a_node_would_write_anew_does_not_pass(tmp_path, kind, content, why):
    path = tmp_path / f"{7:020d}{kind}"
    path.write_bytes(content)
    answer = dump(str(path), flags=("--index-sanity-check",))
    assert answer.exit_code == 1
    assert why in answer.stderr
    assert answer.stdout == f"Dumping {path}\n"


def test_of_a_log_so_much_is_read_as_was_asked_for(log):
    path = log.segments[0].path(".log")
    whole = dump(path).stdout.splitlines()
    ends = [int(line.split(" position: ")[1].split()[0]) for line in whole[2:]]
    assert ends[:2] == [0, ends[1]]
    for size, batches in ((0, 0), (ends[1] - 1, 0), (ends[1], 1), (ends[2] + 1, 2)):
        answer = dump(path, flags=("--max-bytes", str(size)))
        assert answer.exit_code == 0, "what was not read is not wrong"
        assert answer.stdout.splitlines() == whole[: 2 + batches]
    assert dump(path, flags=("--max-bytes", "-1")).exit_code == 2


def test_records_without_what_is_said_of_them(log):
    flags = ("--skip-record-metadata", "--print-data-log")
    path = log.segments[0].path(".log")
    assert dump(path, flags=flags).stdout.splitlines()[3] == "| key: k payload: v0"
    assert dump(path, flags=flags[:1]).stdout == dump(path).stdout
    path = log.segments.active.path(".log")
    assert dump(path, flags=flags).stdout.splitlines()[3:] == [""], "a control record"
    items = [json.loads(line) for line in dump(path, flags=(*flags, "--json")).stdout.splitlines()]
    assert items[-1] == {"file": path, "kind": "record"}


@pytest.mark.parametrize("name", ["nothing.log", "leader-epoch-checkpoint"])
def test_other_files_are_refused(log, name):
    answer = dump(f"{log.path}/{name}")
    assert answer.exit_code == 1
    assert answer.stderr.count("\n") == 1


class Watched(io.StringIO):
    """Standard error of somebody who looks."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("flags", "verb"), [([], "checked"), (["--cut"], "recovered")])
def test_a_repair_tells_how_far_it_is(log, monkeypatch, flags, verb):
    seconds = itertools.count()
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    if flags:
        flip(log.segments[1].path(".log"), 90)
    with Watched() as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        repair_log.command([log.path, *flags], standalone_mode=False)
        drawn = stderr.getvalue().split("\r\x1b[K")
    shown = [line for line in drawn if line.startswith(verb)]
    assert len(shown) > 3
    assert drawn[-1] == "", "the line is left empty"


def test_progress_where_the_end_is_known(monkeypatch, capsys):
    seconds = iter([10.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress.Progress("checked").show_bytes(120_000_000, 3_456_000_000)
    assert capsys.readouterr().err == "\r\x1b[Kchecked 120 of 3,456 MB, 60 MB/s"


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
