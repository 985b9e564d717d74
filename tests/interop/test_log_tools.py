"""DumpLogSegments reads our files without complaint, and prints what `tidelog dump-log` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.interop.apache import run_tool
from tests.interop.test_log_apache import NOW, WALL_MS, Ours, workload
from tidelog.cli.dump_log import command
from tidelog.wire.batch import LOG_APPEND_TIME
from tidelog.wire.batch_builder import BatchBuilder

pytestmark = pytest.mark.interop

COMPLAINTS = ("isvalid: false", "Found ", "Mismatches", "not found in", "Exception")


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A log with all that a log may hold, closed."""
    path = tmp_path_factory.mktemp("dump") / "tides-0"
    ours = Ours(path)
    for line in workload(6):
        ours.answer(line)
    odd = BatchBuilder()
    odd.append(None, None, timestamp=WALL_MS)
    odd.append(b"", b"", timestamp=WALL_MS, headers=((b"h1", None), (b"h2", b"x")))
    odd.append("ключ".encode(), "значение".encode(), timestamp=WALL_MS - 5)
    ours.log.append_built(odd.build(), 3, NOW)
    ours.log.append_built(odd.build(attributes=LOG_APPEND_TIME), 3, NOW)
    ours.log.truncate_to(ours.log.log_end_offset - 3)
    ours.log.append_built(odd.build(), 4, NOW)
    ours.log.close(NOW)
    return path


def paths(directory: Path, *suffixes: str) -> str:
    found = [str(path) for path in sorted(directory.iterdir()) if path.suffix in suffixes]
    assert found
    return ",".join(found)


def apache(*arguments: str) -> str:
    printed = run_tool("DumpLogSegments", *arguments)
    assert not [line for line in printed.splitlines() if any(c in line for c in COMPLAINTS)]
    return printed


EVERYTHING = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.mark.parametrize("flags", [("--deep-iteration", "--print-data-log"), ()])
def test_both_tools_print_the_same(directory, flags):
    arguments = ["--files", paths(directory, *EVERYTHING), *flags]
    ours = CliRunner().invoke(command, arguments)
    assert ours.exit_code == 0, ours.output
    assert ours.stdout.splitlines() == apache(*arguments).splitlines()


@pytest.mark.parametrize("flag", ["--index-sanity-check", "--verify-index-only"])
def test_indexes_pass_the_sanity_check_and_the_comparison(directory, flag):
    arguments = ["--files", paths(directory, *EVERYTHING), flag]
    ours = CliRunner().invoke(command, arguments)
    assert ours.exit_code == 0, ours.output
    theirs = apache(*arguments)
    assert ours.stdout.splitlines() == theirs.splitlines()
    indexes = paths(directory, ".index", ".timeindex").count(",") + 1
    passed = theirs.count("passed sanity check") + theirs.count("is empty")
    assert passed == (indexes if flag == "--index-sanity-check" else 1)


def test_both_tools_read_as_much_of_a_log(directory):
    log = paths(directory, ".log").split(",")[0]
    for size in ("0", "1", "500", "1000000"):
        arguments = ["--files", log, "--max-bytes", size]
        ours = CliRunner().invoke(command, arguments)
        assert ours.exit_code == 0, ours.output
        assert ours.stdout.splitlines() == apache(*arguments).splitlines()


@pytest.mark.parametrize("flag", ["--print-data-log", "--deep-iteration"])
def test_both_tools_skip_what_is_said_of_records(directory, flag):
    arguments = ["--files", paths(directory, ".log"), "--skip-record-metadata", flag]
    ours = CliRunner().invoke(command, arguments)
    assert ours.exit_code == 0, ours.output
    # Apache's forgets to note a log's first offset then, and says that -1 is followed by it.
    theirs = [
        line
        for line in apache(*arguments).splitlines()
        if not line.startswith(("Non-consecutive offsets", "  -1 is followed by"))
    ]
    assert ours.stdout.splitlines() == theirs
